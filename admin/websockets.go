package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"shardway/admin/api"
	"shardway/internal/problem"
)

// sockets lists sockets, or closes the upstream connections of some.
func (s *Server) sockets(w http.ResponseWriter, r *http.Request) error {
	if s.api.WebSockets == nil {
		return problem.New(problem.NotFound, "this node has no list of WebSockets")
	}
	if r.Method != http.MethodPost {
		if _, err := query(r); err != nil {
			return err
		}
		list := s.api.WebSockets.Sockets(r.Context())
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
	broken := s.api.WebSockets.BreakSockets(ctx, b, c.caller.String())
	if broken.Unresponsive = nonNil(broken.Unresponsive); broken.Sockets == 0 {
		unresponsive := ""
		if len(broken.Unresponsive) > 0 {
			unresponsive = "; " + strings.Join(broken.Unresponsive, ", ") + " did not respond"
		}
		return problem.Newf(problem.NotFound, "no resumable WebSocket%s has a connection to its app%s: GET /v1/websockets lists the shards with WebSockets", whose, unresponsive)
	}
	return writeJSON(w, broken)
}

func breakArgumentNames() []string { return []string{"move_test", "all", "key", "shard", "gap"} }

// readSocketBreak parses the selection and describes it for the log, which must not contain keys.
func (s *Server) readSocketBreak(r *http.Request) (b api.SocketBreak, whose string, err error) {
	a, err := readBreakArguments(r)
	if err != nil {
		return b, "", err
	}
	b = api.SocketBreak{All: a.All, Key: a.Key, Gap: a.Gap}
	if a.All {
		return b, "", nil
	}
	shard, err := s.shardArgument(api.Arguments{Key: a.Key, Shard: a.Shard})
	if err != nil {
		return b, "", err
	}
	if a.Key == nil {
		b.Shard = &shard
		return b, fmt.Sprintf(" of shard %d", shard), nil
	}
	whose = fmt.Sprintf(" of a key of shard %d", shard)
	if s.api.Keys != nil {
		_, hash := s.api.Keys.Mark(*a.Key)
		whose = fmt.Sprintf(" of key_hash %s of shard %d", hash, shard)
	}
	return b, whose, nil
}

// readBreakArguments requires move_test=true explicitly, so that an accidental POST has no effect.
func readBreakArguments(r *http.Request) (a api.BreakArguments, err error) {
	body, err := readBody(r)
	if err != nil {
		return a, err
	}
	if body != nil {
		a, err = decodeObject[api.BreakArguments](body, `{"move_test":true,"key":"alice"}`, breakArgumentNames())
	} else if q, wrong := query(r, breakArgumentNames()...); wrong != nil {
		err = wrong
	} else {
		a, err = q.breakArguments()
	}
	switch {
	case err != nil:
	case !a.Break:
		err = missing("move_test", `give {"move_test":true} or ?move_test=true, and one of all, key and shard`)
	case a.Key != nil && a.Shard != nil:
		err = badParam("shard", strconv.FormatUint(*a.Shard, 10), "is given in addition to key: give one of all, key and shard")
	case a.All && (a.Key != nil || a.Shard != nil):
		err = badParam("all", "true", "is given in addition to key or shard: give one of all, key and shard")
	case !a.All && a.Key == nil && a.Shard == nil:
		err = missing("all", `give one of all, key and shard, as in {"move_test":true,"key":"alice"} or ?move_test=true&shard=7`)
	}
	return a, err
}

func (p params) breakArguments() (a api.BreakArguments, err error) {
	if a.Break, err = p.boolean("move_test"); err != nil {
		return a, err
	}
	if a.All, err = p.boolean("all"); err != nil {
		return a, err
	}
	if a.Gap, err = p.boolean("gap"); err != nil {
		return a, err
	}
	if p.has("key") {
		key := p.get("key")
		a.Key = &key
	}
	a.Shard, err = p.optionalNumber("shard")
	return a, err
}
