package eventlog

import (
	"fmt"
	"strings"

	"shardway/diagnosis"
	"shardway/event"
	"shardway/proxy/wsession"
	"shardway/shardmap"
)

// ReasonLabel returns the reason of a map change as one word, for events and metric labels: "missed ack"
// becomes "missed-ack".
func ReasonLabel(reason string) string { return strings.ReplaceAll(reason, " ", "-") }

// Finding returns the event of finding f being raised, or being cleared if raised is false.
func Finding(raised bool, f diagnosis.Finding) event.Event {
	kind := event.FindingCleared
	if raised {
		kind = event.FindingRaised
	}
	return event.Event{Kind: kind, Finding: &f}
}

// ClusterState returns the event of a change of the cluster state.
func ClusterState(state diagnosis.ClusterState, reason string) event.Event {
	return event.Event{Kind: event.ClusterStateChanged, State: state.String(), Reason: reason}
}

// AppHealth returns the event of a node's app becoming healthy or unhealthy.
func AppHealth(node shardmap.NodeID, healthy bool) event.Event {
	kind := event.AppUnhealthy
	if healthy {
		kind = event.AppHealthy
	}
	return event.Event{Kind: kind, Node: string(node)}
}

// InstanceHealth returns the event of an app instance becoming healthy or unhealthy. The node must have several
// instances.
func InstanceHealth(node shardmap.NodeID, instance shardmap.Instance, healthy bool) event.Event {
	e := AppHealth(node, healthy)
	e.Instance = instance.Number()
	return e
}

// ProcessFailed returns the event of a failure of the app process for a key of a shard. failures is the number of
// consecutive failures for this key. The event omits the key, because anyone who may read events could read it.
func ProcessFailed(node shardmap.NodeID, shard shardmap.Shard, failures int, reason string) event.Event {
	return event.Event{Kind: event.ProcessFailed, Node: string(node), Reason: fmt.Sprintf("shard %d, failure %d: %.200s", shard, failures, reason)}
}

// WebSocketsMoved returns the event with the outcome for resumable WebSockets that lost their upstream
// connections together.
func WebSocketsMoved(h wsession.Handover) event.Event {
	return event.Event{Kind: event.WebSocketsMoved, Sockets: &event.Sockets{
		Shards: h.Shards, Sockets: h.Sockets, Gaps: h.ResumedWithGap, Lost: h.Lost, LongestMS: milliseconds(h.LongestOutage),
	}}
}
