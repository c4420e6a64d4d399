package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"shardway/admin/api"
	"shardway/diagnosis"
)

// Backup returns the control state as a file for the command restore.
func (c *Client) Backup(ctx context.Context) ([]byte, error) {
	return c.do(ctx, call{method: http.MethodGet, path: "/v1/backup"})
}

// Checkup makes the node collect reports from all nodes.
func (c *Client) Checkup(ctx context.Context, reach bool) (diagnosis.Checkup, error) {
	return getJSON[diagnosis.Checkup](ctx, c, "/v1/checkup", url.Values{"reach": {strconv.FormatBool(reach)}})
}

// Status returns the status of the node.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return getJSON[api.Status](ctx, c, "/status", nil)
}

// Nodes lists the nodes.
func (c *Client) Nodes(ctx context.Context) (api.NodeList, error) {
	return getJSON[api.NodeList](ctx, c, "/v1/nodes", nil)
}

// Shards lists the shards. If node is not empty, it lists only the shards that this node owns or
// will own.
func (c *Client) Shards(ctx context.Context, node string) (api.ShardList, error) {
	return getJSON[api.ShardList](ctx, c, "/v1/shards", singleParam("node", node))
}

// Endpoints lists the announced endpoints. If name is not empty, it lists only endpoints with this
// name.
func (c *Client) Endpoints(ctx context.Context, name string) (api.EndpointList, error) {
	return getJSON[api.EndpointList](ctx, c, "/v1/endpoints", singleParam("name", name))
}

// EndpointsAfter waits until the endpoints of this name differ from those of the version, for up to wait (at most 1
// min), and returns them. An empty name means all endpoints, and an empty version does not wait.
func (c *Client) EndpointsAfter(ctx context.Context, name, version string, wait time.Duration) (api.EndpointList, error) {
	query := url.Values{"watch": {version}, "wait": {wait.String()}}
	if name != "" {
		query.Set("name", name)
	}
	return fetchJSON[api.EndpointList](ctx, c, call{method: http.MethodGet, path: "/v1/endpoints?" + query.Encode(), serverWait: min(wait, api.MaxWait)})
}

// Map returns the committed map.
func (c *Client) Map(ctx context.Context) (api.Map, error) {
	return getJSON[api.Map](ctx, c, "/v1/map", nil)
}

// MapAfter waits until the epoch of the committed map exceeds after, for up to wait (at most 1
// min), and returns the map.
func (c *Client) MapAfter(ctx context.Context, after uint64, wait time.Duration) (api.Map, error) {
	query := url.Values{"after": {strconv.FormatUint(after, 10)}, "wait": {wait.String()}}
	return fetchJSON[api.Map](ctx, c, call{method: http.MethodGet, path: "/v1/map?" + query.Encode(), serverWait: min(wait, api.MaxWait)})
}

// Locate returns the shard and the owner of a key of the service default.
func (c *Client) Locate(ctx context.Context, key string) (api.Location, error) {
	return c.LocateIn(ctx, LocateQuery{Key: key})
}

// LocateQuery selects a key of a service. Service, or Host and Path, select the service. The service default is
// used if all of them are empty.
type LocateQuery struct {
	Key, Service string
	// Host and Path are those of a request.
	Host, Path string
}

// LocateIn returns the shard and the owner of a key of a service.
func (c *Client) LocateIn(ctx context.Context, selected LocateQuery) (api.Location, error) {
	query := url.Values{"key": {selected.Key}}
	for name, value := range map[string]string{"service": selected.Service, "host": selected.Host, "path": selected.Path} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return getJSON[api.Location](ctx, c, "/v1/locate", query)
}

// Services returns the services of the cluster.
func (c *Client) Services(ctx context.Context) (api.ServiceList, error) {
	return getJSON[api.ServiceList](ctx, c, "/v1/services", nil)
}

// Joins returns the join requests, and the members of the cluster.
func (c *Client) Joins(ctx context.Context) (api.JoinList, error) {
	return getJSON[api.JoinList](ctx, c, "/v1/joins", nil)
}

// ServiceShards returns the shards of a service. If node is not empty, it returns only those of the node.
func (c *Client) ServiceShards(ctx context.Context, service, node string) (api.ShardList, error) {
	query := url.Values{"service": {service}}
	if node != "" {
		query.Set("node", node)
	}
	return getJSON[api.ShardList](ctx, c, "/v1/shards", query)
}

// ServiceShard returns the owner of one shard and its history. shard is a number within the service. An empty
// service means the service default.
func (c *Client) ServiceShard(ctx context.Context, service string, shard uint32) (api.ShardHistory, error) {
	var query url.Values
	if service != "" {
		query = url.Values{"service": {service}}
	}
	return getJSON[api.ShardHistory](ctx, c, "/v1/shards/"+strconv.FormatUint(uint64(shard), 10), query)
}

// Ready returns nil if the node is ready, and otherwise the reason.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/readyz"})
	return err
}

// Rotate replaces the secret of the cluster. reason may be empty, as in all methods with a reason.
func (c *Client) Rotate(ctx context.Context, reason string) (api.Rotation, error) {
	body, err := json.Marshal(api.Arguments{Reason: reason})
	if err != nil {
		return api.Rotation{}, err
	}
	return fetchJSON[api.Rotation](ctx, c, call{method: http.MethodPost, path: "/v1/rotate-secret", body: body, serverWait: api.ActionTimeout})
}

// FinalizeUpgrade puts the next format version into force without waiting.
func (c *Client) FinalizeUpgrade(ctx context.Context, reason string) (api.UpgradeState, error) {
	body, err := json.Marshal(struct {
		Finalize bool   `json:"finalize"`
		Reason   string `json:"reason,omitempty"`
	}{true, reason})
	if err != nil {
		return api.UpgradeState{}, err
	}
	return fetchJSON[api.UpgradeState](ctx, c, call{method: http.MethodPost, path: "/v1/upgrade", body: body, serverWait: api.ActionTimeout})
}

// ChangeTiming changes what is not empty in the timing of the cluster.
func (c *Client) ChangeTiming(ctx context.Context, change api.Timing, reason string) (api.TimingState, error) {
	body, err := json.Marshal(struct {
		api.Timing
		Reason string `json:"reason,omitempty"`
	}{change, reason})
	if err != nil {
		return api.TimingState{}, err
	}
	return fetchJSON[api.TimingState](ctx, c, call{method: http.MethodPost, path: "/v1/settings", body: body, serverWait: api.ActionTimeout})
}

// Do runs an action, and returns it as the node has parsed it, with a warning. The server sets action.By.
func (c *Client) Do(ctx context.Context, action api.Action) (api.ActionResult, error) {
	args := api.Arguments{Service: action.Service, Node: action.Node, To: action.To, Force: action.Force, For: action.For, Zone: action.Zone, Role: action.Role, IdleFirst: action.IdleFirst, Safe: action.Safe, ReleaseTimeout: action.ReleaseTimeout, Reason: action.Reason, Fallbacks: action.Fallbacks}
	weight, shard := uint64(action.Weight), uint64(action.Shard)
	if action.Verb == api.Weigh {
		args.Weight = &weight
	}
	if shards := uint64(action.Shards); action.Verb == api.AddService {
		args.Shards = &shards
	}
	if action.Ticket > 0 {
		args.Ticket = &action.Ticket
	}
	if action.Verb == api.Pin || action.Verb == api.Unpin {
		args.Shard = &shard
	}
	body, err := json.Marshal(args)
	if err != nil {
		return api.ActionResult{}, err
	}
	return fetchJSON[api.ActionResult](ctx, c, call{method: http.MethodPost, path: "/v1/" + action.Verb.String(), body: body, serverWait: api.ActionTimeout})
}

// DrainState returns the progress of the drain of a node.
func (c *Client) DrainState(ctx context.Context, node string) (api.DrainState, error) {
	return getJSON[api.DrainState](ctx, c, "/v1/drain", url.Values{"node": {node}})
}

// EventQuery selects events.
type EventQuery struct {
	After string        // ID of the event before the first one; empty means all events
	Wait  time.Duration // for the next event if there are none, up to 1 min
	// Shards adds the lists of moved shards to the events.
	Shards bool
}

// Events returns the events that the query selects.
func (c *Client) Events(ctx context.Context, selected EventQuery) (api.EventList, error) {
	query := url.Values{"wait": {selected.Wait.String()}}
	if selected.After != "" {
		query.Set("after", selected.After)
	}
	if selected.Shards {
		query.Set("shards", "1")
	}
	return fetchJSON[api.EventList](ctx, c, call{method: http.MethodGet, path: "/v1/events?" + query.Encode(), serverWait: min(selected.Wait, api.MaxWait)})
}

// Fetch returns the response to GET path without decoding it.
func (c *Client) Fetch(ctx context.Context, path string) ([]byte, error) {
	return c.do(ctx, call{method: http.MethodGet, path: path})
}

// Hot returns the load of the cluster.
func (c *Client) Hot(ctx context.Context) (api.HotList, error) {
	return getJSON[api.HotList](ctx, c, "/v1/hot", nil)
}

// Owned returns the shards of the app of the node.
func (c *Client) Owned(ctx context.Context) (api.OwnedList, error) {
	return getJSON[api.OwnedList](ctx, c, "/v1/owned", nil)
}

// Processes returns the processes of the app of the node.
func (c *Client) Processes(ctx context.Context) (api.ProcessList, error) {
	return getJSON[api.ProcessList](ctx, c, "/v1/processes", nil)
}

// Plan returns the moves of the next map.
func (c *Client) Plan(ctx context.Context) (api.Plan, error) {
	return getJSON[api.Plan](ctx, c, "/v1/plan", nil)
}

// Policy returns the policy that the node has applied.
func (c *Client) Policy(ctx context.Context) (api.Policy, error) {
	return getJSON[api.Policy](ctx, c, "/v1/policy", nil)
}

// Shard returns the owner of one shard and its history.
func (c *Client) Shard(ctx context.Context, shard uint32) (api.ShardHistory, error) {
	return c.ServiceShard(ctx, "", shard)
}

// Sockets returns the sockets of the cluster.
func (c *Client) Sockets(ctx context.Context) (api.SocketList, error) {
	return getJSON[api.SocketList](ctx, c, "/v1/websockets", nil)
}

// BreakSockets closes the connections of resumable sockets to their app, so that the sockets
// resume with new connections. A shard in the request counts within the service; an empty name means default.
func (c *Client) BreakSockets(ctx context.Context, service string, request api.SocketBreak, reason string) (api.BrokenSockets, error) {
	args := api.BreakArguments{Break: true, All: request.All, Service: service, Key: request.Key, Gap: request.Gap, Reason: reason}
	if request.Shard != nil {
		shard := uint64(*request.Shard)
		args.Shard = &shard
	}
	body, err := json.Marshal(args)
	if err != nil {
		return api.BrokenSockets{}, err
	}
	return fetchJSON[api.BrokenSockets](ctx, c, call{method: http.MethodPost, path: "/v1/websockets", body: body, serverWait: api.ActionTimeout})
}

// Timing returns the timing of the cluster.
func (c *Client) Timing(ctx context.Context) (api.TimingState, error) {
	return getJSON[api.TimingState](ctx, c, "/v1/settings", nil)
}

// UpgradeStatus returns the format version of the cluster.
func (c *Client) UpgradeStatus(ctx context.Context) (api.UpgradeState, error) {
	return getJSON[api.UpgradeState](ctx, c, "/v1/upgrade", nil)
}
