package metrics

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardway/internal/nativehist"
	"shardway/internal/problem"
	"shardway/internal/servicelabel"
	"shardway/proxy/keylimit"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
)

// Status codes 100 to 599 are counted separately.
const firstStatus, statusCount = 100, 500

// statusClasses is one more than the highest class of status codes whose duration is measured. The
// classes are 2 to 5.
const statusClasses = 6

// RetryReason is the reason why a request was retried.
type RetryReason uint8

// Reasons for sending a request again.
const (
	RetryUnsent   RetryReason = iota // the request had not been sent, or the peer had read no byte of it
	RetryRefused                     // the owner refused it
	RetryBroken                      // the request may have run, and its method permits a retry
	RetryMoved                       // its shard moved before the response began
	RetryKeyNamed                    // the app has named another key
	retryReasons
)

var retryNames = [retryReasons]string{"unsent", "refused", "broken", "moved", "key-named"}

// ResumeOutcome is the outcome for an event stream whose upstream response has ended.
type ResumeOutcome uint8

// Outcomes for an event stream that has lost its owner.
const (
	ResumeDone       ResumeOutcome = iota // the stream continues
	ResumeImpossible                      // the stream cannot be resumed
	ResumeTimedOut                        // no owner resumed the stream in time
	resumeOutcomes
)

var resumeNames = [resumeOutcomes]string{"resumed", "unfit", "late"}

// Metrics contains the counters and histograms of a Server. It uses arrays of atomic counters,
// because a prometheus.CounterVec would look up its labels for each request. Collect converts the
// counters into Prometheus metrics.
type Metrics struct {
	requests           [int(route.Remote) + 1][statusCount]atomic.Uint64
	Queued             [route.ReasonCount]atomic.Uint64
	QueuedNanos        [route.ReasonCount]atomic.Int64
	Refused            [int(route.RefusedStopping) + 1]atomic.Uint64 // refused by this node
	RefusedByOwner     [int(route.RefusedStopping) + 1]atomic.Uint64 // refused by other nodes
	Retries            [retryReasons]atomic.Uint64
	errors             [errorCodes]atomic.Uint64
	TruncatedResponses atomic.Uint64
	OversizedCookies   atomic.Uint64 // Set-Cookie lines that were too long for a suffix
	InvalidHolds       atomic.Uint64
	Panics             atomic.Uint64
	Limited            [keylimit.KindCount]atomic.Uint64 // requests that exceeded a limit of their key
	ClientDisconnects  atomic.Uint64
	ShedIdle           atomic.Uint64
	ShedHeaders        atomic.Uint64
	ShedBodies         atomic.Uint64
	Tunnels            atomic.Int64
	MuxStreams         atomic.Uint64
	EventLoopRequests  atomic.Uint64
	ResumableStreams   atomic.Int64 // open resumable event streams
	Resumptions        [resumeOutcomes]atomic.Uint64
	// The following fields count resumable WebSockets at their ingress.
	RelayStarts [wsession.RelayStartCount]atomic.Uint64
	RelayEnds   [wsession.RelayEndCount]atomic.Uint64
	SessionEnds [wsession.SessionEndCount]atomic.Uint64
	Handovers   [wsession.RelayStartCount]nativehist.Histogram
	// FirstMessages counts WebSockets whose key is in their first message.
	FirstMessages [wsession.FirstMessageCount]atomic.Uint64

	createdAt         time.Time
	hasServices       bool
	requestDurations  [int(route.Remote) + 1][statusClasses]nativehist.Histogram // by the class of the status
	UpstreamDurations [int(route.Remote) + 1]nativehist.Histogram
	QueueWaits        [route.ReasonCount]nativehist.Histogram // by the first reason

	mu      sync.Mutex
	aborted map[string]uint64 // aborted requests by reason; a map suffices because they are rare
}

// New returns metrics without values. hasServices is set if the configuration of the node has services; then
// the metrics of app instances have the label service.
func New(hasServices bool) *Metrics {
	return &Metrics{aborted: make(map[string]uint64), createdAt: time.Now(), hasServices: hasServices}
}

// CountResponse counts a response by route and status code. kind zero means that the request failed
// before routing.
func (m *Metrics) CountResponse(kind route.Kind, code int) {
	if index := code - firstStatus; index >= 0 && index < statusCount {
		m.requests[kind][index].Add(1)
	}
}

// ObserveDuration records the duration of a request by its route and the status of its response. It
// does not record the duration of an upgraded connection, which depends on its endpoints, nor that of
// a request whose client disconnected before the response.
func (m *Metrics) ObserveDuration(kind route.Kind, status int, elapsed time.Duration) {
	if class := status / 100; class > 1 && class < statusClasses {
		m.requestDurations[kind][class].Observe(elapsed)
	}
}

// CountProblem counts an error response of this node.
func (m *Metrics) CountProblem(code problem.Code) {
	for i, candidate := range problemCodes() {
		if code == candidate {
			m.errors[i].Add(1)
			return
		}
	}
}

// problemCodes returns the codes of the error responses of this package.
func problemCodes() [errorCodes]problem.Code {
	return [errorCodes]problem.Code{
		problem.NoKey, problem.NoLeader, problem.QueueFull, problem.QueueTimeout, problem.UpstreamRefused,
		problem.UpstreamTimeout, problem.UpstreamBroken, problem.UpstreamBusy, problem.PeerUnreachable,
		problem.Misrouted, problem.BadRequest, problem.TooLarge, problem.URITooLong, problem.HeadersTooLarge,
		problem.RequestTimeout, problem.ShardMoved, problem.UpstreamConnectTimeout, problem.AppFailed, problem.ShardBusy, problem.Quarantined, problem.KeyBusy, problem.RerouteLoop, problem.RateLimited, problem.NoService,
	}
}

const errorCodes = 24

// CountAborted counts n requests that were aborted for a reason.
func (m *Metrics) CountAborted(reason string, n int) {
	if n == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.aborted[reason] += uint64(n)
}

var (
	descRequests = prometheus.NewDesc("shardway_requests_total",
		"Total number of requests that got a response, by route and status code.", []string{"route", "code"}, nil)
	descQueued = prometheus.NewDesc("shardway_queued_requests_total",
		"Total number of requests that were queued, by the first reason.", []string{"reason"}, nil)
	descQueuedSeconds = prometheus.NewDesc("shardway_queued_seconds_total",
		"Time that requests were queued, by reason.", []string{"reason"}, nil)
	descDuration = prometheus.NewDesc("shardway_request_duration_seconds",
		"Time from the header section of a request to the end of its response, by route and class of status.", []string{"route", "class"}, nil)
	descUpstreamSeconds = prometheus.NewDesc("shardway_upstream_duration_seconds",
		"Time that a request spent at the app or the owner, to the end of its response.", []string{"route"}, nil)
	descQueueWait = prometheus.NewDesc("shardway_queue_wait_seconds",
		"Time that a request was queued in total, by the first reason.", []string{"reason"}, nil)
	descAppBytes = prometheus.NewDesc("shardway_app_bytes_total",
		"Bytes of requests that the app of this node served, in both directions.", nil, nil)
	descQueueWaiting = prometheus.NewDesc("shardway_queue_requests",
		"Number of requests that are queued.", nil, nil)
	descQueueBytes = prometheus.NewDesc("shardway_queue_bytes",
		"Bytes of memory that queued requests use.", nil, nil)
	descRefused = prometheus.NewDesc("shardway_refused_total",
		"Total number of forwarded requests that this node refused, by reason.", []string{"reason"}, nil)
	descRefusals = prometheus.NewDesc("shardway_refused_by_owner_total",
		"Total number of requests that this node forwarded and the owner refused, by reason.", []string{"reason"}, nil)
	descRetries = prometheus.NewDesc("shardway_retries_total",
		"Total number of requests sent again, by the reason that allowed it.", []string{"reason"}, nil)
	descErrors = prometheus.NewDesc("shardway_errors_total",
		"Total number of error responses of Shardway, by Shardway-Error.", []string{"error"}, nil)
	descAborted = prometheus.NewDesc("shardway_aborted_requests_total",
		"Total number of running requests that were aborted, by reason.", []string{"reason"}, nil)
	descBadHolds = prometheus.NewDesc("shardway_invalid_holds_total",
		"Total number of responses whose Shardway-Hold is not a number of seconds.", nil, nil)
	descLimited = prometheus.NewDesc("shardway_limited_requests_total",
		"Total number of requests that exceeded a limit of their key at this owner, by type of the limit.", []string{"type"}, nil)
	descPanics = prometheus.NewDesc("shardway_panics_total",
		"Total number of requests aborted because Shardway panicked.", nil, nil)
	descTruncated = prometheus.NewDesc("shardway_truncated_responses_total",
		"Total number of app responses that ended early after their header section had been sent.", nil, nil)
	descOversizedCookies = prometheus.NewDesc("shardway_oversized_cookies_total",
		"Total number of Set-Cookie header lines left without a suffix because they would exceed 4,096 bytes.", nil, nil)
	descClientDisconnects = prometheus.NewDesc("shardway_client_disconnects_total",
		"Total number of requests given up because the client disconnected.", nil, nil)
	descShed = prometheus.NewDesc("shardway_shed_connections_total",
		"Total number of client connections closed to make room: the longest idle at --max-conns, the slowest headers at --max-header-bytes-total, the slowest bodies at --max-body-total.", []string{"type"}, nil)
	descHeaderBytes = prometheus.NewDesc("shardway_header_bytes",
		"Bytes of memory that partly received header sections use.", nil, nil)
	descBodyBytes = prometheus.NewDesc("shardway_body_bytes",
		"Bytes of memory that requests use whose body is read before they continue.", nil, nil)
	descConns = prometheus.NewDesc("shardway_connections",
		"Number of open connections from clients and from nodes that forward; a multiplexed stream counts as one.", nil, nil)
	descParked = prometheus.NewDesc("shardway_idle_connections",
		"Number of idle client connections that have no goroutine.", nil, nil)
	descTunnels = prometheus.NewDesc("shardway_tunnels",
		"Number of open upgraded connections.", nil, nil)
	descParkedDirections = prometheus.NewDesc("shardway_idle_websocket_directions",
		"Number of idle directions of resumable WebSockets, two for each, that have no goroutine.", nil, nil)
	descResumable = prometheus.NewDesc("shardway_resumable_streams",
		"Number of open event streams that continue at the next owner of their shard.", nil, nil)
	descResumptions = prometheus.NewDesc("shardway_stream_resumptions_total",
		"Total number of event streams that lost their owner, by result of the resumption.", []string{"result"}, nil)
	descMuxStreams = prometheus.NewDesc("shardway_mux_streams_total",
		"Total number of requests that this node forwarded as a stream of a multiplexed session, retries included.", nil, nil)
	descLoopRequests = prometheus.NewDesc("shardway_eventloop_requests_total",
		"Total number of client requests that an event loop served.", nil, nil)
	descLoopConns = prometheus.NewDesc("shardway_eventloop_connections",
		"Number of client connections that an event loop serves.", nil, nil)
	descUpstream = prometheus.NewDesc("shardway_upstream_connections",
		"Number of open connections to the app.", nil, nil)
	descInstanceConns = servicelabel.NewDesc("shardway_app_instance_connections",
		"Number of open connections to an app instance of this node; only with several instances.", LabelInstance)
	descInstanceInFlight = servicelabel.NewDesc("shardway_app_instance_requests_in_flight",
		"Number of requests that an app instance of this node is serving, upgraded connections included; only with several instances.", LabelInstance)
	descInstanceRequests = servicelabel.NewDesc("shardway_app_instance_requests_total",
		"Total number of requests sent to an app instance of this node, retries included; only with several instances.", LabelInstance)
)

// LabelInstance is the label with the number of an app instance. Prometheus itself uses the label "instance" for
// the address of the node.
const LabelInstance = "app_instance"

// Describe sends the descriptions of all metrics. It implements prometheus.Collector for the Server.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		descRequests, descDuration, descUpstreamSeconds, descQueueWait, descAppBytes, descQueued, descQueuedSeconds, descQueueWaiting, descQueueBytes, descRefused, descRefusals,
		descRetries, descErrors, descAborted, descTruncated, descOversizedCookies, descBadHolds, descLimited, descPanics, descClientDisconnects, descShed, descHeaderBytes, descBodyBytes, descConns, descParked, descTunnels, descParkedDirections, descResumable, descResumptions, descMuxStreams, descLoopRequests, descLoopConns, descUpstream,
		descInstanceConns.For(m.hasServices), descInstanceInFlight.For(m.hasServices), descInstanceRequests.For(m.hasServices),
	} {
		ch <- desc
	}
	for _, desc := range webSocketDescs() {
		ch <- desc
	}
}

// Values contains current values of a Server that are not counted in Metrics.
type Values struct {
	AppBytes           int64 // bytes of the requests that the app served
	QueuedRequests     int
	QueuedBytes        int64
	HeaderBytes        int64  // memory of partly read headers
	BodyBytes          int64  // memory of bodies that are read before their requests continue
	Conns              int    // open connections of clients and nodes
	ParkedConns        int    // idle connections without a goroutine
	EventLoopConns     int    // connections that an event loop serves
	ParkedDirections   int32  // idle directions of resumable WebSockets without a goroutine
	AttachedWebSockets int    // resumable WebSockets with an upstream connection
	DetachedWebSockets int    // resumable WebSockets without one
	FirstMessages      int    // WebSockets that wait for their first message
	ReplayBytes        int64  // memory of the WebSocket messages that are stored for a replay
	ReplaysRefused     uint64 // WebSockets whose messages were not stored because of the limit
	HasApp             bool   // the node has an app; otherwise UpstreamConns has no meaning
	UpstreamConns      int    // open connections to the app
	// Instances are the values of each app instance. It is empty for a node with one instance.
	Instances []InstanceValues
}

// InstanceValues contains the current values of an app instance.
type InstanceValues struct {
	Number   int
	Service  string // service that the app runs; empty without services
	Conns    int    // open connections
	InFlight int    // requests and upgraded connections
	Requests uint64 // requests sent so far
}

// Collect sends the counters, the histograms and the values.
func (m *Metrics) Collect(ch chan<- prometheus.Metric, values *Values) {
	count := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, labels...)
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	m.collectCounters(count)
	m.collectHistograms(ch)
	m.collectWebSockets(ch, count)
	count(descAppBytes, float64(values.AppBytes))
	gauge(descQueueWaiting, float64(values.QueuedRequests))
	gauge(descQueueBytes, float64(values.QueuedBytes))
	gauge(descHeaderBytes, float64(values.HeaderBytes))
	gauge(descBodyBytes, float64(values.BodyBytes))
	gauge(descConns, float64(values.Conns))
	gauge(descParked, float64(values.ParkedConns))
	gauge(descLoopConns, float64(values.EventLoopConns))
	gauge(descParkedDirections, float64(values.ParkedDirections))
	gauge(descWebSockets, float64(values.AttachedWebSockets), wsession.Attached.String())
	gauge(descWebSockets, float64(values.DetachedWebSockets), wsession.Detached.String())
	gauge(descFirstMessagesWaiting, float64(values.FirstMessages))
	gauge(descReplayBytes, float64(values.ReplayBytes))
	count(descReplaysRefused, float64(values.ReplaysRefused))
	gauge(descTunnels, float64(m.Tunnels.Load()))
	gauge(descResumable, float64(m.ResumableStreams.Load()))
	if values.HasApp {
		gauge(descUpstream, float64(values.UpstreamConns))
	}
	for _, instance := range values.Instances {
		labels := []string{strconv.Itoa(instance.Number)}
		if m.hasServices {
			labels = append(labels, instance.Service)
		}
		gauge(descInstanceConns.For(m.hasServices), float64(instance.Conns), labels...)
		gauge(descInstanceInFlight.For(m.hasServices), float64(instance.InFlight), labels...)
		count(descInstanceRequests.For(m.hasServices), float64(instance.Requests), labels...)
	}
}

// collectHistograms sends the histograms that contain at least one value.
func (m *Metrics) collectHistograms(ch chan<- prometheus.Metric) {
	send := func(histogram *nativehist.Histogram, desc *prometheus.Desc, labels ...string) {
		if metric := histogram.Metric(desc, m.createdAt, labels...); metric != nil {
			ch <- metric
		}
	}
	for kind := range m.requestDurations {
		for class := range m.requestDurations[kind] {
			send(&m.requestDurations[kind][class], descDuration, routeLabel(route.Kind(kind)), strconv.Itoa(class)+"xx")
		}
		send(&m.UpstreamDurations[kind], descUpstreamSeconds, routeLabel(route.Kind(kind)))
	}
	for reason := route.ReasonMoving; int(reason) < route.ReasonCount; reason++ {
		send(&m.QueueWaits[reason], descQueueWait, reason.String())
	}
}

// routeLabel returns the label of a route. kind zero means that the request failed before routing.
func routeLabel(kind route.Kind) string {
	if kind == 0 {
		return "none"
	}
	return kind.String()
}

// collectCounters calls count for each counter. It skips status codes that have not occurred.
func (m *Metrics) collectCounters(count func(desc *prometheus.Desc, value float64, labels ...string)) {
	for kind := range m.requests {
		route := routeLabel(route.Kind(kind))
		for i := range m.requests[kind] {
			if n := m.requests[kind][i].Load(); n > 0 {
				count(descRequests, float64(n), route, strconv.Itoa(firstStatus+i))
			}
		}
	}
	for r := route.ReasonMoving; int(r) < route.ReasonCount; r++ {
		count(descQueued, float64(m.Queued[r].Load()), r.String())
		count(descQueuedSeconds, time.Duration(m.QueuedNanos[r].Load()).Seconds(), r.String())
	}
	for refusal := route.RefusedNotOwner; refusal <= route.RefusedStopping; refusal++ {
		count(descRefused, float64(m.Refused[refusal].Load()), refusal.String())
		count(descRefusals, float64(m.RefusedByOwner[refusal].Load()), refusal.String())
	}
	for i := range m.Retries {
		count(descRetries, float64(m.Retries[i].Load()), retryNames[i])
	}
	for i, code := range problemCodes() {
		count(descErrors, float64(m.errors[i].Load()), string(code))
	}
	for i := range m.Resumptions {
		count(descResumptions, float64(m.Resumptions[i].Load()), resumeNames[i])
	}
	count(descTruncated, float64(m.TruncatedResponses.Load()))
	count(descOversizedCookies, float64(m.OversizedCookies.Load()))
	count(descMuxStreams, float64(m.MuxStreams.Load()))
	count(descLoopRequests, float64(m.EventLoopRequests.Load()))
	count(descBadHolds, float64(m.InvalidHolds.Load()))
	for kind := range m.Limited {
		count(descLimited, float64(m.Limited[kind].Load()), keylimit.Kind(kind).String())
	}
	count(descPanics, float64(m.Panics.Load()))
	count(descClientDisconnects, float64(m.ClientDisconnects.Load()))
	count(descShed, float64(m.ShedIdle.Load()), "idle")
	count(descShed, float64(m.ShedHeaders.Load()), "head")
	count(descShed, float64(m.ShedBodies.Load()), "body")
	m.mu.Lock()
	defer m.mu.Unlock()
	for reason, n := range m.aborted {
		count(descAborted, float64(n), strings.ReplaceAll(reason, " ", "_"))
	}
}
