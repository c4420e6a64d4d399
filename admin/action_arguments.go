package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"shardway/admin/api"
	"shardway/internal/nodelabel"
	"shardway/internal/problem"
	"shardway/shardmap"
)

// readAction parses and validates the arguments of a verb.
func (s *Server) readAction(r *http.Request, verb api.Verb) (api.Action, error) {
	args, err := readArguments(r, verb.Params(), verb.Example())
	if err != nil {
		return api.Action{}, err
	}
	action := api.Action{
		Verb:           verb,
		Service:        args.Service,
		Node:           args.Node,
		To:             args.To,
		Force:          args.Force,
		For:            args.For,
		Zone:           args.Zone,
		Role:           args.Role,
		Fallbacks:      args.Fallbacks,
		IdleFirst:      args.IdleFirst,
		Safe:           args.Safe,
		ReleaseTimeout: args.ReleaseTimeout,
		Reason:         args.Reason,
	}
	if err = checkReason(args.Reason); err != nil {
		return action, err
	}
	requiresNode := slices.Contains(verb.Params(), "node") && verb != api.Pin
	if requiresNode && action.Node == "" {
		return action, missing("node", "give the ID of a node, as in "+verb.Example()+" or ?node=n3")
	}
	switch verb {
	case api.Pause:
		err = checkPause(args)
	case api.Weigh:
		action.Weight, err = readWeight(args)
	case api.Pin:
		err = cmp.Or(s.setShard(&action, args), checkPinTarget(args))
	case api.Unpin:
		err = s.setShard(&action, args)
	case api.Quarantine, api.Lift:
		err = s.readKeyArgument(&action, args)
	case api.Drain:
		err = cmp.Or(checkIdleFirst(args), checkReleaseTimeout(args))
	case api.Rebalance:
		if args.Reason == "" {
			err = missing("reason", `give the reason for the log, as in {"reason":"new hardware"} or ?reason=new+hardware`)
		}
	case api.AddService, api.RemoveService:
		err = s.readServiceArguments(&action, args)
	case api.SetRole:
		err = checkRole(args)
	case api.Approve, api.Refuse:
		err = readTicket(&action, args)
	case api.Remove, api.StepDown, api.Cordon, api.Uncordon, api.Resume, api.AppRestarted, api.MarkFailed, api.ClearRole:
	}
	return action, err
}

// isDuration reports whether text is a duration from shortest to longest.
func isDuration(text string, shortest, longest time.Duration) bool {
	d, err := time.ParseDuration(text)
	return err == nil && d >= shortest && d <= longest
}

// checkPinTarget checks that exactly one of node and zone is given.
func checkPinTarget(args api.Arguments) error {
	switch {
	case args.Node != "" && args.Zone != "":
		return conflicting("zone", args.Zone, "node")
	case args.Node == "" && args.Zone == "":
		return missing("node", "say where the shard belongs, at a node or in a zone, as in "+api.Pin.Example()+" or ?shard=7&zone=east")
	}
	return checkFallbacks(args)
}

// checkFallbacks checks the further nodes of a pin. No node may be given twice.
func checkFallbacks(args api.Arguments) error {
	list := strings.Join(args.Fallbacks, ",")
	switch {
	case len(args.Fallbacks) == 0:
		return nil
	case args.Node == "":
		return badParam("fallbacks", list, "belongs to a pin to a node: give node as well, or leave out fallbacks")
	case len(args.Fallbacks) > api.MaxPinFallbacks:
		return badParam("fallbacks", list, fmt.Sprintf("has more than %d nodes: leave out the last ones", api.MaxPinFallbacks))
	}
	for i, node := range args.Fallbacks {
		if node == "" || node == args.Node || slices.Contains(args.Fallbacks[:i], node) {
			return badParam("fallbacks", list, fmt.Sprintf("has the node %q twice, or an empty name: give each node once", node))
		}
	}
	return nil
}

// checkRole checks the role of SetRole.
func checkRole(args api.Arguments) error {
	if args.Role == "" {
		return missing("role", "name a role, as in "+api.SetRole.Example()+" or ?role=app; clear-role ends a restriction")
	}
	if nodelabel.CheckRole(args.Role) != nil {
		return badParam("role", args.Role, "is not a role: "+nodelabel.NameRemedy)
	}
	return nil
}

// minActionDuration is the shortest pause, quarantine or gradual drain.
const minActionDuration = time.Second

func checkPause(args api.Arguments) error {
	if args.For == "" {
		return missing("for", `say for how long, as in {"for":"30m"} or ?for=30m`)
	}
	if !isDuration(args.For, minActionDuration, api.MaxPause) {
		return badParam("for", args.For, fmt.Sprintf("is not a duration from 1s to %v: give a value such as 30m", api.MaxPause))
	}
	return nil
}

// checkReason returns an error if the reason of an action is invalid. An empty reason is valid.
func checkReason(reason string) error {
	isOneLine := utf8.ValidString(reason) && !strings.ContainsFunc(reason, unicode.IsControl)
	if len(reason) > api.MaxReason || !isOneLine {
		return badParam("reason", reason, fmt.Sprintf("is longer than %d bytes or contains control characters: give a shorter text on one line", api.MaxReason))
	}
	return nil
}

func checkReleaseTimeout(args api.Arguments) error {
	if args.ReleaseTimeout != "" && !isDuration(args.ReleaseTimeout, api.MinReleaseTimeout, api.MaxReleaseTimeout) {
		return badParam("release_timeout", args.ReleaseTimeout, fmt.Sprintf("is not a duration from %v to %v: give a value such as 30s, or omit it", api.MinReleaseTimeout, api.MaxReleaseTimeout))
	}
	return nil
}

func checkIdleFirst(args api.Arguments) error {
	if args.IdleFirst != "" && !isDuration(args.IdleFirst, minActionDuration, api.MaxIdleFirst) {
		return badParam("idle_first", args.IdleFirst, fmt.Sprintf("is not a duration from 1s to %v: give a value such as 30s, or omit it", api.MaxIdleFirst))
	}
	return nil
}

// readWeight returns the weight that Weigh sets.
func readWeight(args api.Arguments) (uint32, error) {
	if args.Weight == nil {
		return 0, missing("weight", `say which, as in {"node":"n3","weight":2}; 0 is the node's own`)
	}
	if *args.Weight > shardmap.MaxWeight {
		return 0, badParam("weight", strconv.FormatUint(*args.Weight, 10), fmt.Sprintf("is not a valid weight: give a number from 1 to %d, or 0 for the weight that the node was started with", shardmap.MaxWeight))
	}
	return uint32(*args.Weight), nil
}

// setShard sets the shard and the service of an action from the number of a shard, or from a key. The action has no
// service if the cluster has no list of services.
func (s *Server) setShard(action *api.Action, args api.Arguments) error {
	shardMap := s.api.Cluster.Map()
	switch {
	case args.Shard != nil && args.Key != nil:
		return conflicting("key", *args.Key, "shard")
	case args.Key != nil && *args.Key == "":
		return emptyKeyProblem()
	case args.Shard == nil && args.Key == nil:
		return missing("shard", `say which shard, or whose key, as in {"shard":7} or ?key=alice`)
	case shardMap.Shards < 1:
		return problem.New(problem.NotReady, "the node does not know the cluster's shards yet: ask again once /readyz is green")
	}
	service, err := findService(&shardMap, args.Service)
	if err != nil {
		return err
	}
	if args.Key != nil {
		action.Shard = uint32(shardmap.ShardOf(*args.Key, service.Shards))
	} else if action.Shard, err = shardInRange(&shardMap, service, *args.Shard); err != nil {
		return err
	}
	action.Service = serviceName(&shardMap, service)
	return nil
}

// emptyKeyProblem returns the error for an empty key.
func emptyKeyProblem() *problem.Problem {
	return badParam("key", "", "is empty: give the key of a request")
}

// readArguments parses arguments from the JSON body or from the query, and rejects other names than
// those in allowed. example is part of the error for a malformed body.
func readArguments(r *http.Request, allowed []string, example string) (api.Arguments, error) {
	body, err := readBody(r)
	if err != nil {
		return api.Arguments{}, err
	}
	if body != nil {
		return decodeObject[api.Arguments](body, example, allowed)
	}
	params, err := query(r, allowed...)
	if err != nil {
		return api.Arguments{}, err
	}
	args := api.Arguments{
		Service:        params.get("service"),
		Node:           params.get("node"),
		To:             params.get("to"),
		For:            params.get("for"),
		Zone:           params.get("zone"),
		Role:           params.get("role"),
		Hash:           params.get("hash"),
		IdleFirst:      params.get("idle_first"),
		ReleaseTimeout: params.get("release_timeout"),
		Reason:         params.get("reason"),
	}
	if args.Force, err = params.boolean("force"); err != nil {
		return args, err
	}
	if args.Safe, err = params.boolean("safe"); err != nil {
		return args, err
	}
	if params.has("key") {
		key := params.get("key")
		args.Key = &key
	}
	if list := params.get("fallbacks"); list != "" {
		args.Fallbacks = strings.Split(list, ",")
	}
	if args.Weight, err = params.optionalNumber("weight"); err != nil {
		return args, err
	}
	if args.Shards, err = params.optionalNumber("shards"); err != nil {
		return args, err
	}
	if args.Ticket, err = params.optionalNumber("ticket"); err != nil {
		return args, err
	}
	args.Shard, err = params.optionalNumber("shard")
	return args, err
}

// optionalNumber returns a number, or nil if the parameter is absent.
func (p params) optionalNumber(name string) (*uint64, error) {
	if !p.has(name) {
		return nil, nil //nolint:nilnil // an absent parameter is not an error
	}
	n, err := p.number(name)
	return &n, err
}
