// Package planted builds Shardway with bugs in it, so that a test can show that
// the checkers of e2e find them: a checker that has never caught anything proves
// nothing.
//
// A bug is an edit where it would really be made, one condition long. All are
// compiled into one program by the go command's -overlay; the source itself has no
// trace of them. The program has one at a time, which it reads once, at its start,
// from the environment, and it says so in its version and in its log.
package mutants

import (
	"fmt"
	"path"

	"shardway/internal/overlay"
)

// Variable is the environment variable that names the bug to have; unset: none.
const Variable = "SHARDWAY_PLANTED"

// The bugs, as Variable takes them.
const (
	// TwoOwners makes a node acknowledge a map before what runs for its moving
	// shards has ended.
	TwoOwners = "two-owners"
	// SameEpoch makes the new owner tell its app the ownership epoch of the old one.
	SameEpoch = "same-epoch"
	// StaleEpoch makes a node that gets a shard again tell its app the epoch that it
	// had the first time.
	StaleEpoch = "stale-epoch"
	// DoubleRun sends again what was sent and not answered, whatever its method.
	DoubleRun = "double-run"
	// SwallowedAnswer forgets a request that has waited for its shard, and leaves its
	// client waiting.
	SwallowedAnswer = "swallowed-answer"
	// NoRun says with the status 200 that the app cannot be reached.
	NoRun = "no-run"
	// NoLease never lets a lease end, so that a node which was cut off goes on
	// serving.
	NoLease = "no-lease"
	// OtherShard sends a request to the shard of the one before it on its connection.
	OtherShard = "other-shard"
	// RepeatedEvent has an event stream go on at its next owner from the beginning.
	RepeatedEvent = "repeated-event"
	// CutStream has no event stream go on at all.
	CutStream = "cut-stream"
)

// edits are the bugs, in this order, then what makes the program own up to them.
func edits() []overlay.Edit {
	return []overlay.Edit{
		after("ack.Agent.acknowledgeDrained", "if a.o.Gate.Running(a.follower.MayRun) > 0", ` && planted != "two-owners"`),
		{Decl: "node.router.swap", Old: "return proxyRoute(routing.Route(sh))", New: "return r.plantedRoute(proxyRoute(routing.Route(sh)), s.Committed(), sh)"},
		before("node.router.setLease", "\tif last = time.Duration(r.lease.Swap(int64(end))); last != end {\n", `	if planted == "no-lease" {
		end = r.clock.Precise() + time.Hour
	}
`),
		after("proxy.client.decideRetry", `if detail := c.retryDenied(p, why, again); detail != "" `, `&& planted != "double-run" `),
		after("proxy.client.routeUntilAnswered", "if v = c.waitFor(v); v.action == actionRetry", ` && planted != "swallowed-answer"`),
		after("proxy.reply.problem", "\tstatus := p.StatusCode()\n", `	if planted == "no-run" && p.Code == problem.UpstreamRefused {
		status = 200
	}
`),
		before("proxy.client.beginExchange", "\tc.x = exchange{\n\t\tsafety:", `	last, again := c.x.shard, c.x.sharded
`),
		after("proxy.client.beginExchange", "	c.body.reset()\n", `	if planted == "other-shard" && again {
		c.x.shard, c.x.sharded = last, true
	}
`),
		after("proxy.resumed.appendAsked", "	if len(id) > 0", ` && planted != "repeated-event"`),
		after("proxy.responseRelay.continuesStream", "	if k == nil || werr != nil", ` || planted == "cut-stream"`),
		before("internal/cli.runCommand.Run", "\tmemory.Limit(log)\n", `	if err = ownUp(log); err != nil {
		return err
	}
`),
		after("internal/cli.versionCommand.Run", "text := b.String()\n", `	text += ", BUILT WITH BUGS for tests, not for use (" + planted + ")"
`),
	}
}

func after(decl, text, more string) overlay.Edit {
	return overlay.Edit{Decl: decl, Old: text, New: text + more}
}

func before(decl, text, more string) overlay.Edit {
	return overlay.Edit{Decl: decl, Old: text, New: more + text}
}

// present is added to every package that has bugs.
const present = `package %s

import "os"

// planted is read once, before main, and never changes.
var planted = os.Getenv(%q)
`

// epochs is added to node.
const epochs = `package node

import (
	"sync"

	"shardway/proxy"
	"shardway/shardmap"
)

var plantedFirsts sync.Map // of shards: the epoch that was ever seen first

// plantedRoute is a route with the epoch that the app is told.
func (r *router) plantedRoute(route proxy.Route, committed *shardmap.Map, sh shardmap.Shard) proxy.Route {
	if route.Kind == proxy.Local {
		route.Epoch = r.plantedEpoch(committed, sh)
	}
	return route
}

// plantedEpoch is the ownership epoch that the app is told.
func (r *router) plantedEpoch(committed *shardmap.Map, sh shardmap.Shard) uint64 {
	epoch := uint64(committed.OwnedSince(sh))
	switch planted {
	case "same-epoch":
		if old := r.state.Load().Committed(); old.Epoch() != 0 {
			epoch = uint64(old.OwnedSince(sh))
		}
	case "stale-epoch":
		first, _ := plantedFirsts.LoadOrStore(sh, epoch)
		epoch = first.(uint64)
	}
	return epoch
}
`

// own is added to internal/cli.
const own = `package cli

import (
	"fmt"
	"slices"

	"github.com/rs/zerolog"
)

// ownUp says that this program was built with bugs. The error is about the name of
// one.
func ownUp(log zerolog.Logger) error {
	if names := %#v; planted != "" && !slices.Contains(names, planted) {
		return fmt.Errorf("%s=%%q: no such bug; use one of %%q", planted, names)
	}
	log.Error().Str("bug", planted).Str("effect", "must not serve clients").Msg("test binary with planted bugs")
	return nil
}
`

// Names returns the names of all bugs.
func Names() []string {
	return []string{TwoOwners, SameEpoch, StaleEpoch, DoubleRun, SwallowedAnswer, NoRun, NoLease, OtherShard, RepeatedEvent, CutStream}
}

// Overlay writes the bugs into dir and returns what go build -overlay takes. root
// is the module's.
func Overlay(root, dir string) (string, error) {
	o := overlay.New(root)
	for _, pkg := range []string{"ack", "node", "proxy", "internal/cli"} {
		o.Add(pkg+"/planted.go", fmt.Sprintf(present, path.Base(pkg), Variable))
	}
	o.Add("node/planted_epochs.go", epochs)
	o.Add("internal/cli/planted_own.go", fmt.Sprintf(own, Names(), Variable))
	for _, e := range edits() {
		if err := o.Edit(e); err != nil {
			return "", err
		}
	}
	return o.Write(dir)
}
