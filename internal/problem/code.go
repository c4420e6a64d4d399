package problem

import "net/http"

// HeaderError is the header that carries the Code of a problem. A response
// without it comes from the app.
const HeaderError = "Shardway-Error"

// ContentType is the media type of a problem (RFC 9457, section 3).
const ContentType = "application/problem+json"

// typePrefix makes a Code a URI for the member "type". The URI is only an identifier: it does
// not resolve to a page.
const typePrefix = "urn:shardway:"

// Code identifies a kind of problem. It is the value of Shardway-Error. The meaning of a code
// never changes, because clients and alerts match on it.
type Code string

// Codes of the app port.
const (
	NoKey           Code = "no-key"
	NoLeader        Code = "no-leader"
	QueueFull       Code = "queue-full"
	QueueTimeout    Code = "queue-timeout"
	UpstreamRefused Code = "upstream-refused"
	UpstreamTimeout Code = "upstream-timeout"
	UpstreamBroken  Code = "upstream-broken"
	// UpstreamConnectTimeout is for an app that neither accepted nor refused a connection.
	UpstreamConnectTimeout Code = "upstream-connect-timeout"
	// AppFailed is for an app in the node's process that panicked, or whose response
	// is invalid.
	AppFailed Code = "app-failed"
	// UpstreamBusy is for a request that exceeds the limit of connections to the app.
	UpstreamBusy Code = "upstream-busy"
	// ProcessFailed is for an app with one process for each key or shard, if that process cannot be started.
	// ProcessLimit is for a request that needs one more process than the limit permits.
	ProcessFailed Code = "process-failed"
	ProcessLimit  Code = "process-limit"
	// ShardBusy is for a request that exceeds the limit of concurrent requests of its shard.
	ShardBusy Code = "shard-busy"
	// KeyBusy is for a request that exceeds the limit of concurrent requests of its key.
	KeyBusy Code = "key-busy"
	// RateLimited is for a request whose key exceeds a limit of the operator.
	RateLimited     Code = "rate-limited"
	PeerUnreachable Code = "peer-unreachable"
	// Misrouted is for a request that reached a node that may not serve it and
	// may not be forwarded again.
	Misrouted  Code = "misrouted"
	BadRequest Code = "bad-request"
	// TooLarge is for a body that is too large, URITooLong for a request line that is too long.
	// HeadersTooLarge is for a header section with too many bytes or too many fields.
	TooLarge        Code = "too-large"
	URITooLong      Code = "uri-too-long"
	HeadersTooLarge Code = "headers-too-large"
	// RequestTimeout is for a request that was not received completely in time.
	RequestTimeout Code = "request-timeout"
	// Quarantined is for a request whose key an operator has put in quarantine.
	Quarantined Code = "quarantined"
	// ShardMoved is for a request aborted because its shard moved away or its node stopped.
	ShardMoved Code = "shard-moved"
	// RerouteLoop is for a request whose second app instance also named a different key.
	RerouteLoop Code = "reroute-loop"
	// NoService is for a request that no route of a service matches.
	NoService Code = "no-service"
)

// Codes of the admin server only.
const (
	NotReady             Code = "not-ready"
	NotFound             Code = "not-found"
	MethodNotAllowed     Code = "method-not-allowed"
	UnsupportedMediaType Code = "unsupported-media-type"
	// Unauthorized is for a request without valid credentials.
	Unauthorized    Code = "unauthorized"
	Forbidden       Code = "forbidden"
	TooManyRequests Code = "too-many-requests"
	Conflict        Code = "conflict"
	// UnknownNode is for an action or request about a node that is not in the cluster.
	UnknownNode Code = "unknown-node"
	// NodeUnhealthy is for an action that needs a node from which the leader receives heartbeats.
	NodeUnhealthy Code = "node-unhealthy"
	// NoActiveNodes is for an action after which no node could own the shards.
	NoActiveNodes Code = "no-active-nodes"
	// UnknownService is for an action or request about a service that the cluster does not have.
	UnknownService Code = "unknown-service"
	// ServiceInUse is for the removal of a service that is in use.
	ServiceInUse Code = "service-in-use"
	// LockHeld is for a request for a lock that another holder has.
	LockHeld Code = "lock-held"
	// LockNotHeld is for the renewal or release of a lock that does not have this holder and token.
	LockNotHeld Code = "lock-not-held"
	// RegistryFull is for a request that exceeds a limit of the registry.
	RegistryFull Code = "registry-full"
	// NotLeader is for an action that reached a node that no longer leads, or does not lead yet.
	NotLeader Code = "not-leader"
	// Timeout is for an action whose outcome was not known in time.
	Timeout  Code = "timeout"
	Internal Code = "internal"
)

// Status returns the default HTTP status of c. Problem.Status can override it. An unknown code
// has the status 500.
func (c Code) Status() int {
	status, _ := c.defaults()
	return status
}

// Title returns the default title of c, a short sentence. It returns c itself for an unknown
// code.
func (c Code) Title() string {
	_, title := c.defaults()
	return title
}

// defaults returns the status and title of c. It is a switch, because a table would be a mutable
// package variable.
func (c Code) defaults() (status int, title string) {
	switch c {
	case NoKey:
		return http.StatusBadRequest, "The request carries no shard key."
	case NoLeader:
		return http.StatusServiceUnavailable, "No leader: this part of the cluster may not serve."
	case QueueFull:
		return http.StatusServiceUnavailable, "Too many requests are waiting for their shard's owner."
	case QueueTimeout:
		return http.StatusServiceUnavailable, "The shard had no certain owner in time."
	case UpstreamRefused:
		return http.StatusBadGateway, "The app does not accept connections."
	case UpstreamTimeout:
		return http.StatusGatewayTimeout, "The app did not answer in time."
	case UpstreamConnectTimeout:
		return http.StatusGatewayTimeout, "The app did not take a connection in time."
	case UpstreamBroken:
		return http.StatusBadGateway, "The connection to the app broke."
	case AppFailed:
		return http.StatusInternalServerError, "The app failed."
	case UpstreamBusy:
		return http.StatusServiceUnavailable, "All connections allowed to the app are in use."
	case ProcessFailed:
		return http.StatusBadGateway, "The app's process for the key failed."
	case ProcessLimit:
		return http.StatusServiceUnavailable, "All processes of the app are in use."
	case ShardBusy:
		return http.StatusServiceUnavailable, "Too many requests of the shard are under way."
	case KeyBusy:
		return http.StatusServiceUnavailable, "Too many requests of the key are in flight."
	case RateLimited:
		return http.StatusTooManyRequests, "The key exceeds a limit."
	case PeerUnreachable:
		return http.StatusBadGateway, "The owning node cannot be reached."
	case Misrouted:
		return http.StatusMisdirectedRequest, "This node may not serve the shard."
	case BadRequest:
		return http.StatusBadRequest, "The request is malformed."
	case TooLarge:
		return http.StatusRequestEntityTooLarge, "The request is too large."
	case URITooLong:
		return http.StatusRequestURITooLong, "The request line is too long."
	case HeadersTooLarge:
		return http.StatusRequestHeaderFieldsTooLarge, "The head of the request is too large."
	case RequestTimeout:
		return http.StatusRequestTimeout, "The request did not come in in time."
	case Quarantined:
		return http.StatusServiceUnavailable, "Requests of this key are not served."
	case ShardMoved:
		return http.StatusBadGateway, "The request was cut: its shard was moving away."
	case RerouteLoop:
		return http.StatusLoopDetected, "The app instances do not agree on the key of the request."
	case NoService:
		return http.StatusNotFound, "No service has a route for the request."
	case NotReady:
		return http.StatusServiceUnavailable, "The node is not ready."
	case NotFound:
		return http.StatusNotFound, "There is nothing here."
	case MethodNotAllowed:
		return http.StatusMethodNotAllowed, "The method is not allowed here."
	case UnsupportedMediaType:
		return http.StatusUnsupportedMediaType, "The body is not JSON."
	case Unauthorized:
		return http.StatusUnauthorized, "The caller is not known."
	case TooManyRequests:
		return http.StatusTooManyRequests, "Too many requests were refused."
	case Forbidden:
		return http.StatusForbidden, "The request is not allowed."
	case Conflict:
		return http.StatusConflict, "The cluster refused the action."
	case UnknownNode:
		return http.StatusNotFound, "The cluster has no such node."
	case NodeUnhealthy:
		return http.StatusConflict, "The node does not respond to the leader."
	case NoActiveNodes:
		return http.StatusConflict, "No node could own the shards."
	case UnknownService:
		return http.StatusNotFound, "The cluster has no such service."
	case LockHeld:
		return http.StatusConflict, "Another holder has the lock."
	case LockNotHeld:
		return http.StatusConflict, "The lock does not have this holder and token."
	case RegistryFull:
		return http.StatusInsufficientStorage, "A limit of the registry is reached."
	case ServiceInUse:
		return http.StatusConflict, "The service is in use."
	case NotLeader:
		return http.StatusServiceUnavailable, "The node that was asked does not lead."
	case Timeout:
		return http.StatusGatewayTimeout, "The cluster did not answer in time."
	case Internal:
		return http.StatusInternalServerError, "Something went wrong in the node."
	}
	return http.StatusInternalServerError, string(c)
}
