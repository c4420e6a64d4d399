package admin

import (
	"fmt"
	"strconv"

	"shardway/admin/api"
	"shardway/internal/problem"
)

// readKeyArgument sets the shard and the key_hash of an action, because the log must not contain
// keys.
func (s *Server) readKeyArgument(action *api.Action, args api.Arguments) (err error) {
	if s.api.Keys == nil {
		return problem.New(problem.NotFound, "this node knows no keys")
	}
	if args.For != "" && !isDuration(args.For, minActionDuration, api.MaxPause) {
		return badParam("for", args.For, fmt.Sprintf("is not a duration from 1s to %v: give a value such as 30m, or omit it", api.MaxPause))
	}
	switch {
	case args.Key != nil && args.Hash != "":
		return conflicting("hash", args.Hash, "key")
	case args.Key == nil && args.Hash == "":
		return missing("key", `say which, as in {"key":"alice"}, or, as key_hash in access logs, {"shard":7,"hash":"0123456789abcdef"}`)
	case args.Key != nil && args.Shard != nil:
		return badParam("shard", strconv.FormatUint(*args.Shard, 10), "is that of the key: leave it out, or name the key by its hash")
	case args.Key != nil && *args.Key == "":
		return emptyKeyProblem()
	case args.Key != nil && s.api.Cluster.Map().Shards < 1:
		return problem.New(problem.NotReady, "the node does not know the cluster's shards yet: ask again once /readyz is green")
	case args.Key != nil:
		if err = s.setShard(action, args); err != nil {
			return err
		}
		if _, action.Hash, err = s.api.Keys.Mark(action.Service, *args.Key); err != nil {
			return problem.New(problem.BadRequest, err.Error())
		}
		return nil
	}
	if _, err = strconv.ParseUint(args.Hash, 16, 64); err != nil || len(args.Hash) != 16 {
		return badParam("hash", args.Hash, "is not a key hash: give 16 hexadecimal digits")
	}
	action.Hash = args.Hash
	return s.setShard(action, args)
}
