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

// SocketList is the answer of GET /v1/sockets: the WebSockets of the cluster, and whatever
// else was upgraded, as the nodes tell at this moment.
type SocketList struct {
	Shards []ShardSockets `json:"shards"` // that have any, ascending
	Nodes  []NodeSockets  `json:"nodes"`  // sorted by id
	// Silent are the nodes that did not tell in time.
	Silent []string `json:"silent"`
}

// ShardSockets counts the sockets of a shard, at all nodes together.
type ShardSockets struct {
	Shard    uint32 `json:"shard"`
	Attached int    `json:"attached"` // kept, with a connection to the app
	Detached int    `json:"detached"` // kept, and waiting for the next one
	Plain    int    `json:"plain"`    // not kept: they end when the shard moves
}

// NodeSockets counts the sockets of a node.
type NodeSockets struct {
	Node string `json:"node"`
	// Attached and Detached are as in ShardSockets, of clients that are connected there.
	Attached int `json:"attached"`
	Detached int `json:"detached"`
	App      int `json:"app"` // that are connected to its app, kept or not
}

// SocketBreak names kept sockets whose connections to their app are to end, so that the
// next ones follow: as when their shard moves, or, with Gap, as when its owner dies.
type SocketBreak struct {
	// Key and Shard: those of this key, or of this shard; neither: all.
	Key   *string `json:"key,omitempty"`
	Shard *uint32 `json:"shard,omitempty"`
	Gap   bool    `json:"gap,omitempty"`
}

// BrokenSockets is the answer of POST /v1/sockets. Whether the next connections follow
// GET /v1/sockets tells, and the metrics.
type BrokenSockets struct {
	Sockets int            `json:"sockets"` // so many were asked to break
	Nodes   map[string]int `json:"nodes"`   // of them at each node that has some
	Silent  []string       `json:"silent"`  // as in SocketList; theirs may go on
}

// Keeper knows of sockets that stay while their shards move. A Cluster that is one too
// serves /v1/sockets.
type SocketAPI interface {
	// Sockets asks the nodes, at most once a second whoever wants it, and returns within
	// two seconds of that. What it returns is nobody's to change.
	Sockets(ctx context.Context) SocketList
	// BreakSockets asks every node, likewise.
	BreakSockets(ctx context.Context, b SocketBreak, by string) BrokenSockets
}

// sockets lists sockets, or breaks some.
func (s *Server) sockets(w http.ResponseWriter, r *http.Request) error {
	keeper, ok := s.cluster.(SocketAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node knows no sockets")
	}
	if r.Method != http.MethodPost {
		if _, err := query(r); err != nil {
			return err
		}
		list := keeper.Sockets(r.Context())
		list.Shards, list.Nodes, list.Silent = nonNil(list.Shards), nonNil(list.Nodes), nonNil(list.Silent)
		return writeJSON(w, list)
	}
	b, whose, err := s.readSocketBreak(r)
	if err != nil {
		return err
	}
	c := admissionOf(r)
	c.action = "break sockets" + whose
	if b.Gap {
		c.action += " with a gap"
	}
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	broken := keeper.BreakSockets(ctx, b, c.caller.String())
	if broken.Silent = nonNil(broken.Silent); broken.Sockets == 0 {
		untold := ""
		if len(broken.Silent) > 0 {
			untold = "; " + strings.Join(broken.Silent, ", ") + " did not answer"
		}
		return problem.Newf(problem.NotFound, "no kept socket%s has a connection to its app%s: GET /v1/sockets tells which shards have some", whose, untold)
	}
	return writeJSON(w, broken)
}

// breaking are the arguments of POST /v1/sockets.
type breakArguments struct {
	Break bool    `json:"break"`
	Key   *string `json:"key,omitempty"`
	Shard *uint64 `json:"shard,omitempty"`
	Gap   bool    `json:"gap,omitempty"`
}

func breakArgumentNames() []string { return []string{"break", "key", "shard", "gap"} }

// readBreak reads which sockets are meant, and says so for the log, which has no keys.
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

// readBreaking wants the word: a POST by mistake shall disturb nobody.
func readBreakArguments(r *http.Request) (a breakArguments, err error) {
	body, err := readBody(r)
	if err != nil {
		return a, err
	}
	if body != nil {
		a, err = decodeObject[breakArguments](body, `{"break":true,"key":"alice"}`, breakArgumentNames())
	} else if q, wrong := query(r, breakArgumentNames()...); wrong != nil {
		err = wrong
	} else {
		a, err = q.breakArguments()
	}
	switch {
	case err != nil:
	case !a.Break:
		err = missing("break", `say {"break":true} or ?break=true, with "key" or "shard" unless all sockets of the cluster are meant`)
	case a.Key != nil && a.Shard != nil:
		err = badParam("shard", strconv.FormatUint(*a.Shard, 10), "is that of the key: give one of the two")
	}
	return a, err
}

func (p params) breakArguments() (a breakArguments, err error) {
	if a.Break, err = p.boolean("break"); err != nil {
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
	return getJSON[SocketList](ctx, c, "/v1/sockets", nil)
}

// BreakSockets has the legs of kept sockets end, so that the next ones follow.
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
	return fetchJSON[BrokenSockets](ctx, c, call{method: http.MethodPost, path: "/v1/sockets", body: body, serverWait: actTimeout})
}
