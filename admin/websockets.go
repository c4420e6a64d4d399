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
	selection, description, err := s.readSocketBreak(r)
	if err != nil {
		return err
	}
	admission := admissionOf(r)
	admission.action = "move-test websockets" + description
	if selection.Gap {
		admission.action += " with a gap"
	}
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	broken := s.api.WebSockets.BreakSockets(ctx, selection, admission.caller.String())
	broken.Unresponsive = nonNil(broken.Unresponsive)
	if broken.Sockets == 0 {
		unresponsive := ""
		if len(broken.Unresponsive) > 0 {
			unresponsive = "; " + strings.Join(broken.Unresponsive, ", ") + " did not respond"
		}
		return problem.Newf(problem.NotFound, "no resumable WebSocket%s has a connection to its app%s: GET /v1/websockets lists the shards with WebSockets", description, unresponsive)
	}
	return writeJSON(w, broken)
}

func breakArgumentNames() []string {
	return []string{"move_test", "all", "service", "key", "shard", "gap", "reason"}
}

// readSocketBreak parses the selection and describes it for the log, which must not contain keys.
func (s *Server) readSocketBreak(r *http.Request) (selection api.SocketBreak, description string, err error) {
	args, err := readBreakArguments(r)
	if err != nil {
		return selection, "", err
	}
	admissionOf(r).reason = args.Reason
	selection = api.SocketBreak{All: args.All, Key: args.Key, Gap: args.Gap}
	if args.All {
		return selection, "", nil
	}
	var action api.Action
	if err = s.setShard(&action, api.Arguments{Service: args.Service, Key: args.Key, Shard: args.Shard}); err != nil {
		return selection, "", err
	}
	shard := describeShard(action)
	shardMap := s.api.Cluster.Map()
	service, err := findService(&shardMap, action.Service)
	if err != nil {
		return selection, "", err
	}
	index := service.First + action.Shard
	if args.Key == nil || len(shardMap.Services) > 0 { // another service may have the same key
		selection.Shard = &index
	}
	if args.Key == nil {
		return selection, " of " + shard, nil
	}
	description = " of a key of " + shard
	if s.api.Keys != nil {
		if _, hash, markErr := s.api.Keys.Mark(action.Service, *args.Key); markErr == nil {
			description = fmt.Sprintf(" of key_hash %s of %s", hash, shard)
		}
	}
	return selection, description, nil
}

// readBreakArguments requires move_test=true explicitly, so that an accidental POST has no effect.
func readBreakArguments(r *http.Request) (args api.BreakArguments, err error) {
	args, err = parseBreakArguments(r)
	if err != nil {
		return args, err
	}
	if err = checkReason(args.Reason); err != nil {
		return args, err
	}
	selectsShard := args.Key != nil || args.Shard != nil
	switch {
	case !args.Break:
		err = missing("move_test", `give {"move_test":true} or ?move_test=true, and one of all, key and shard`)
	case args.Key != nil && args.Shard != nil:
		err = badParam("shard", strconv.FormatUint(*args.Shard, 10), "is given in addition to key: give one of all, key and shard")
	case args.All && selectsShard:
		err = badParam("all", "true", "is given in addition to key or shard: give one of all, key and shard")
	case !args.All && !selectsShard:
		err = missing("all", `give one of all, key and shard, as in {"move_test":true,"key":"alice"} or ?move_test=true&shard=7`)
	}
	return args, err
}

// parseBreakArguments parses the arguments from the JSON body or from the query.
func parseBreakArguments(r *http.Request) (api.BreakArguments, error) {
	body, err := readBody(r)
	if err != nil {
		return api.BreakArguments{}, err
	}
	if body != nil {
		return decodeObject[api.BreakArguments](body, `{"move_test":true,"key":"alice"}`, breakArgumentNames())
	}
	values, err := query(r, breakArgumentNames()...)
	if err != nil {
		return api.BreakArguments{}, err
	}
	return values.breakArguments()
}

// breakArguments returns the arguments of a move test that a query contains.
func (p params) breakArguments() (args api.BreakArguments, err error) {
	args.Reason, args.Service = p.get("reason"), p.get("service")
	if args.Break, err = p.boolean("move_test"); err != nil {
		return args, err
	}
	if args.All, err = p.boolean("all"); err != nil {
		return args, err
	}
	if args.Gap, err = p.boolean("gap"); err != nil {
		return args, err
	}
	if p.has("key") {
		key := p.get("key")
		args.Key = &key
	}
	args.Shard, err = p.optionalNumber("shard")
	return args, err
}
