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

	"shardway/internal/problem"
	"shardway/shardmap"
)

// MaxPause is the longest duration of a pause or a quarantine.
const MaxPause = 7 * 24 * time.Hour

// arguments are the parameters of an action in a request. nil means that a parameter is absent.
type arguments struct {
	Node      string  `json:"node,omitempty"`
	Force     bool    `json:"force,omitempty"`
	For       string  `json:"for,omitempty"`
	Weight    *uint64 `json:"weight,omitempty"`
	Shard     *uint64 `json:"shard,omitempty"`
	Key       *string `json:"key,omitempty"`
	Zone      string  `json:"zone,omitempty"`
	Hash      string  `json:"hash,omitempty"`
	IdleFirst string  `json:"idle_first,omitempty"`
	Safe      bool    `json:"safe,omitempty"`
	// ReleaseTimeout is a duration such as "30s".
	ReleaseTimeout string `json:"release_timeout,omitempty"`
	Reason         string `json:"reason,omitempty"`
}

// readAction parses and validates the arguments of a verb.
func (s *Server) readAction(r *http.Request, v Verb) (Action, error) {
	known, _ := v.spec()
	args, err := readArguments(r, known)
	if err != nil {
		return Action{}, err
	}
	a := Action{Verb: v, Node: args.Node, Force: args.Force, For: args.For, Zone: args.Zone, IdleFirst: args.IdleFirst, Safe: args.Safe, ReleaseTimeout: args.ReleaseTimeout, Reason: args.Reason}
	if slices.Contains(known.params, "node") && v != Pin && a.Node == "" {
		return a, missing("node", "say which node to "+v.String()+", as in "+known.example+" or ?node=n3")
	}
	switch v {
	case Pause:
		err = checkPause(args)
	case Weigh:
		a.Weight, err = args.weight()
	case Pin, Unpin:
		switch a.Shard, err = s.shardArgument(args); {
		case err != nil || v == Unpin:
		case a.Node != "" && a.Zone != "":
			err = conflicting("zone", a.Zone, "node")
		case a.Node == "" && a.Zone == "":
			err = missing("node", "say where the shard belongs, at a node or in a zone, as in "+known.example+" or ?shard=7&zone=east")
		}
	case Quarantine, Lift:
		err = s.readKeyArgument(&a, args)
	case Drain:
		err = cmp.Or(checkIdleFirst(args), checkReleaseTimeout(args))
	case Rebalance:
		err = checkReason(args)
	case Remove, StepDown, Cordon, Uncordon, Resume, AppRestarted:
	}
	return a, err
}

func checkPause(args arguments) error {
	if args.For == "" {
		return missing("for", `say for how long, as in {"for":"30m"} or ?for=30m`)
	}
	if d, err := time.ParseDuration(args.For); err != nil || d < time.Second || d > MaxPause {
		return badParam("for", args.For, fmt.Sprintf("is no duration from 1s to %v: give one such as 30m", MaxPause))
	}
	return nil
}

// MaxReason is the longest reason of a Rebalance, in bytes.
const MaxReason = 200

func checkReason(args arguments) error {
	switch {
	case args.Reason == "":
		return missing("reason", `give the reason for the log, as in {"reason":"new hardware"} or ?reason=new+hardware`)
	case len(args.Reason) > MaxReason || !utf8.ValidString(args.Reason) || strings.ContainsFunc(args.Reason, unicode.IsControl):
		return badParam("reason", args.Reason, fmt.Sprintf("is not a text of up to %d bytes without control characters: give a shorter one on one line", MaxReason))
	}
	return nil
}

// MinReleaseTimeout and MaxReleaseTimeout bound the release timeout of a drain.
const (
	MinReleaseTimeout = 10 * time.Millisecond
	MaxReleaseTimeout = time.Minute
)

func checkReleaseTimeout(args arguments) error {
	if d, err := time.ParseDuration(args.ReleaseTimeout); args.ReleaseTimeout != "" && (err != nil || d < MinReleaseTimeout || d > MaxReleaseTimeout) {
		return badParam("release_timeout", args.ReleaseTimeout, fmt.Sprintf("is no duration from %v to %v: give one such as 30s, or none", MinReleaseTimeout, MaxReleaseTimeout))
	}
	return nil
}

// MaxIdleFirst is the longest duration of Action.Gently.
const MaxIdleFirst = 24 * time.Hour

func checkIdleFirst(args arguments) error {
	if d, err := time.ParseDuration(args.IdleFirst); args.IdleFirst != "" && (err != nil || d < time.Second || d > MaxIdleFirst) {
		return badParam("idle_first", args.IdleFirst, fmt.Sprintf("is no duration from 1s to %v: give one such as 30s, or none", MaxIdleFirst))
	}
	return nil
}

func (args arguments) weight() (uint32, error) {
	if args.Weight == nil {
		return 0, missing("weight", `say which, as in {"node":"n3","weight":2}; 0 is the node's own`)
	}
	if *args.Weight > shardmap.MaxWeight {
		return 0, badParam("weight", strconv.FormatUint(*args.Weight, 10), fmt.Sprintf("is no weight: give 1 to %d, or 0 for the node's own", shardmap.MaxWeight))
	}
	return uint32(*args.Weight), nil
}

// shardArgument returns the shard that the arguments specify by number or by key.
func (s *Server) shardArgument(args arguments) (uint32, error) {
	shards := s.cluster.Map().Shards
	switch {
	case args.Shard != nil && args.Key != nil:
		return 0, conflicting("key", *args.Key, "shard")
	case args.Key != nil && *args.Key == "":
		return 0, emptyKeyProblem()
	case args.Shard == nil && args.Key == nil:
		return 0, missing("shard", `say which shard, or whose key, as in {"shard":7} or ?key=alice`)
	case shards < 1:
		return 0, problem.New(problem.NotReady, "the node does not know the cluster's shards yet: ask again once /readyz is green")
	case args.Key != nil:
		return uint32(shardmap.Of(*args.Key, shards)), nil
	case *args.Shard >= uint64(shards):
		return 0, badParam("shard", strconv.FormatUint(*args.Shard, 10), fmt.Sprintf("is no shard: the cluster has 0 to %d", shards-1))
	}
	return uint32(*args.Shard), nil
}

// emptyKeyProblem returns the error for an empty key.
func emptyKeyProblem() *problem.Problem {
	return badParam("key", "", "is none: no request has an empty one")
}

// readArguments parses the arguments of a verb from the JSON body or from the query.
func readArguments(r *http.Request, v verbSpec) (arguments, error) {
	body, err := readBody(r)
	if err != nil {
		return arguments{}, err
	}
	if body != nil {
		return decodeObject[arguments](body, v.example, v.params)
	}
	q, err := query(r, v.params...)
	if err != nil {
		return arguments{}, err
	}
	args := arguments{Node: q.str("node"), For: q.str("for"), Zone: q.str("zone"), Hash: q.str("hash"), IdleFirst: q.str("idle_first"), ReleaseTimeout: q.str("release_timeout"), Reason: q.str("reason")}
	if args.Force, err = q.boolean("force"); err != nil {
		return args, err
	}
	if args.Safe, err = q.boolean("safe"); err != nil {
		return args, err
	}
	if q.has("key") {
		key := q.str("key")
		args.Key = &key
	}
	if args.Weight, err = q.optionalNumber("weight"); err != nil {
		return args, err
	}
	args.Shard, err = q.optionalNumber("shard")
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
