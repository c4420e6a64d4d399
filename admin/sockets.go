package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"shardway/internal/problem"
)

// SocketList is the response of GET /v1/websockets: the current WebSockets and other upgraded
// connections of the cluster, as reported by the nodes.
type SocketList struct {
	Shards []ShardSockets `json:"shards"` // shards with sockets, ascending
	Nodes  []NodeSockets  `json:"nodes"`  // sorted by id
	// Unresponsive has the nodes that did not respond in time.
	Unresponsive []string `json:"unresponsive"`
}

// ShardSockets has the numbers of sockets of a shard at all nodes together.
type ShardSockets struct {
	Shard    uint32 `json:"shard"`
	Attached int    `json:"attached"` // resumable, with a connection to the app
	Detached int    `json:"detached"` // resumable, waiting for the next connection to the app
	Plain    int    `json:"plain"`    // not resumable: they end when the shard moves
}

// NodeSockets has the numbers of sockets of a node.
type NodeSockets struct {
	Node string `json:"node"`
	// Attached and Detached count as in ShardSockets, for clients that are connected to this node.
	Attached int `json:"attached"`
	Detached int `json:"detached"`
	App      int `json:"app"` // connected to its app, resumable or not
}

// SocketBreak selects resumable sockets whose connections to the app are closed, so that the
// sockets resume with new connections. This has the effect of a move of their shard or, if Gap is
// set, of a failure of its owner.
type SocketBreak struct {
	// Key or Shard selects the sockets of a key or of a shard. Without both, all sockets are selected.
	Key   *string `json:"key,omitempty"`
	Shard *uint32 `json:"shard,omitempty"`
	Gap   bool    `json:"gap,omitempty"`
}

// BrokenSockets is the response of POST /v1/websockets. GET /v1/websockets and the metrics show whether
// the sockets resume.
type BrokenSockets struct {
	Sockets      int            `json:"sockets"`      // number of affected sockets
	Nodes        map[string]int `json:"nodes"`        // number at each node that has some
	Unresponsive []string       `json:"unresponsive"` // as in SocketList; their sockets may be unaffected
}

// SocketAPI is the optional interface of a Cluster that serves /v1/websockets.
type SocketAPI interface {
	// Sockets queries all nodes, at most once per second for all callers together, and returns within
	// 2 s. The caller must not modify the result.
	Sockets(ctx context.Context) SocketList
	// BreakSockets closes upstream connections at all nodes and returns within 2 s.
	BreakSockets(ctx context.Context, b SocketBreak, by string) BrokenSockets
}

// sockets lists sockets, or closes the upstream connections of some.
func (s *Server) sockets(w http.ResponseWriter, r *http.Request) error {
	api, ok := s.cluster.(SocketAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node knows no sockets")
	}
	if r.Method != http.MethodPost {
		if _, err := query(r); err != nil {
			return err
		}
		list := api.Sockets(r.Context())
		list.Shards, list.Nodes, list.Unresponsive = nonNil(list.Shards), nonNil(list.Nodes), nonNil(list.Unresponsive)
		return writeJSON(w, list)
	}
	b, whose, err := s.readSocketBreak(r)
	if err != nil {
		return err
	}
	c := admissionOf(r)
	c.action = "move-test websockets" + whose
	if b.Gap {
		c.action += " with a gap"
	}
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	broken := api.BreakSockets(ctx, b, c.caller.String())
	if broken.Unresponsive = nonNil(broken.Unresponsive); broken.Sockets == 0 {
		untold := ""
		if len(broken.Unresponsive) > 0 {
			untold = "; " + strings.Join(broken.Unresponsive, ", ") + " did not answer"
		}
		return problem.Newf(problem.NotFound, "no resumable WebSocket%s has a connection to its app%s: GET /v1/websockets tells which shards have some", whose, untold)
	}
	return writeJSON(w, broken)
}

// breaking are the arguments of POST /v1/websockets.
type breakArguments struct {
	Break bool    `json:"move_test"`
	Key   *string `json:"key,omitempty"`
	Shard *uint64 `json:"shard,omitempty"`
	Gap   bool    `json:"gap,omitempty"`
}

func breakArgumentNames() []string { return []string{"move_test", "key", "shard", "gap"} }

// readSocketBreak parses the selection and describes it for the log, which must not contain keys.
func (s *Server) readSocketBreak(r *http.Request) (b SocketBreak, whose string, err error) {
	a, err := readBreakArguments(r)
	if err != nil {
		return b, "", err
	}
	b = SocketBreak{Key: a.Key, Gap: a.Gap}
	if a.Key == nil && a.Shard == nil {
		return b, "", nil
	}
	shard, err := s.shardArgument(arguments{Key: a.Key, Shard: a.Shard})
	if err != nil {
		return b, "", err
	}
	if a.Key == nil {
		b.Shard = &shard
		return b, fmt.Sprintf(" of shard %d", shard), nil
	}
	whose = fmt.Sprintf(" of a key of shard %d", shard)
	if marker, ok := s.cluster.(KeyHasher); ok {
		_, hash := marker.Mark(*a.Key)
		whose = fmt.Sprintf(" of key_hash %s of shard %d", hash, shard)
	}
	return b, whose, nil
}

// readBreakArguments requires move_test=true explicitly, so that an accidental POST has no effect.
func readBreakArguments(r *http.Request) (a breakArguments, err error) {
	body, err := readBody(r)
	if err != nil {
		return a, err
	}
	if body != nil {
		a, err = decodeObject[breakArguments](body, `{"move_test":true,"key":"alice"}`, breakArgumentNames())
	} else if q, wrong := query(r, breakArgumentNames()...); wrong != nil {
		err = wrong
	} else {
		a, err = q.breakArguments()
	}
	switch {
	case err != nil:
	case !a.Break:
		err = missing("move_test", `say {"move_test":true} or ?move_test=true, with "key" or "shard" unless all sockets of the cluster are meant`)
	case a.Key != nil && a.Shard != nil:
		err = badParam("shard", strconv.FormatUint(*a.Shard, 10), "is that of the key: give one of the two")
	}
	return a, err
}

func (p params) breakArguments() (a breakArguments, err error) {
	if a.Break, err = p.boolean("move_test"); err != nil {
		return a, err
	}
	if a.Gap, err = p.boolean("gap"); err != nil {
		return a, err
	}
	if p.has("key") {
		key := p.str("key")
		a.Key = &key
	}
	a.Shard, err = p.optionalNumber("shard")
	return a, err
}

// Sockets returns the sockets of the cluster.
func (c *Client) Sockets(ctx context.Context) (SocketList, error) {
	return getJSON[SocketList](ctx, c, "/v1/websockets", nil)
}

// BreakSockets closes the connections of resumable sockets to their app, so that the sockets
// resume with new connections.
func (c *Client) BreakSockets(ctx context.Context, b SocketBreak) (BrokenSockets, error) {
	a := breakArguments{Break: true, Key: b.Key, Gap: b.Gap}
	if b.Shard != nil {
		shard := uint64(*b.Shard)
		a.Shard = &shard
	}
	body, err := json.Marshal(a)
	if err != nil {
		return BrokenSockets{}, err
	}
	return fetchJSON[BrokenSockets](ctx, c, call{method: http.MethodPost, path: "/v1/websockets", body: body, serverWait: actTimeout})
}
