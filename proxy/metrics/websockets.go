package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"shardway/proxy/wsession"
)

var (
	descWebSockets = prometheus.NewDesc("shardway_resumable_websockets",
		"Number of resumable WebSockets whose clients are connected to this node, by whether they have an upstream connection.", []string{"state"}, nil)
	descRelayStarts = prometheus.NewDesc("shardway_websocket_upstream_connections_total",
		"Total number of upstream connections of resumable WebSockets that began, by reason.", []string{"reason"}, nil)
	descRelayEnds = prometheus.NewDesc("shardway_websocket_upstream_closes_total",
		"Total number of upstream connections of resumable WebSockets that ended, by result for the WebSocket.", []string{"result"}, nil)
	descHandover = prometheus.NewDesc("shardway_websocket_handover_duration_seconds",
		"Time from the request to hand over, or the loss of an upstream connection, to the next upstream connection.", []string{"reason"}, nil)
	descResumptionResults = prometheus.NewDesc("shardway_websocket_resumptions_total",
		"Total number of resumable WebSockets that lost their upstream connection, by result.", []string{"result"}, nil)
	descFirstMessages = prometheus.NewDesc("shardway_websocket_first_messages_total",
		"Total number of WebSockets that the node accepted to read the key from their first message, by result.", []string{"result"}, nil)
	descFirstMessagesWaiting = prometheus.NewDesc("shardway_websocket_first_messages_waiting",
		"Number of WebSockets that wait for their first message.", nil, nil)
	descReplayBytes = prometheus.NewDesc("shardway_websocket_replay_bytes",
		"Bytes of memory that the first messages of WebSockets use, which the next upstream connection receives again.", nil, nil)
	descReplaysRefused = prometheus.NewDesc("shardway_websocket_replays_refused_total",
		"Total number of WebSockets that cannot be resumed because the first messages of all WebSockets used too much memory.", nil, nil)
)

func webSocketDescs() []*prometheus.Desc {
	return []*prometheus.Desc{descWebSockets, descRelayStarts, descRelayEnds, descHandover, descResumptionResults, descFirstMessages, descFirstMessagesWaiting, descReplayBytes, descReplaysRefused}
}

// collectWebSockets sends the counters and histograms of resumable WebSockets.
func (m *Metrics) collectWebSockets(ch chan<- prometheus.Metric, count func(desc *prometheus.Desc, value float64, labels ...string)) {
	for i := range m.RelayStarts {
		count(descRelayStarts, float64(m.RelayStarts[i].Load()), wsession.RelayStart(i).String())
		if metric := m.Handovers[i].Metric(descHandover, m.createdAt, wsession.RelayStart(i).String()); metric != nil {
			ch <- metric
		}
	}
	for i := range m.RelayEnds {
		count(descRelayEnds, float64(m.RelayEnds[i].Load()), wsession.RelayEnd(i).String())
	}
	for i := range m.FirstMessages {
		count(descFirstMessages, float64(m.FirstMessages[i].Load()), wsession.FirstMessage(i).String())
	}
	for i := range m.SessionEnds {
		count(descResumptionResults, float64(m.SessionEnds[i].Load()), wsession.SessionEnd(i).String())
	}
}
