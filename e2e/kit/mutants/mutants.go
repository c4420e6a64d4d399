// Package mutants builds Shardway with planted bugs, so that tests can show that the
// checkers of e2e find them. A checker that has never found a bug proves nothing.
//
// A bug is an edit at a realistic place, one condition long. All bugs are compiled into
// one program by the -overlay flag of the go command. The source itself does not contain
// them. The program enables at most one bug, which it reads once at its start from the
// environment. Its version and its log report the bug.
package mutants

import (
	"fmt"
	"path"

	"shardway/internal/overlay"
)

// Variable is the environment variable that selects the bug. Not set means no bug.
const Variable = "SHARDWAY_PLANTED"

// The bugs, as values of Variable.
const (
	// TwoOwners makes a node acknowledge a map before the requests for its moving shards
	// have ended.
	TwoOwners = "two-owners"
	// SameEpoch makes the new owner pass the ownership epoch of the old owner to its app.
	SameEpoch = "same-epoch"
	// StaleEpoch makes a node that regains a shard pass its first epoch to its app.
	StaleEpoch = "stale-epoch"
	// DoubleRun repeats requests that were sent and got no response, with any method.
	DoubleRun = "double-run"
	// SwallowedAnswer drops a request that has waited for its shard, without a response
	// to its client.
	SwallowedAnswer = "swallowed-answer"
	// NoRun responds with the status 200 when the app is unreachable.
	NoRun = "no-run"
	// NoLease never ends a lease, so a disconnected node continues to serve.
	NoLease = "no-lease"
	// OtherShard sends a request to the shard of the previous request on its connection.
	OtherShard = "other-shard"
	// RepeatedEvent resumes an event stream at its next owner from the beginning.
	RepeatedEvent = "repeated-event"
	// CutStream resumes no event stream.
	CutStream = "cut-stream"
	// SiblingEpoch keeps the ownership epoch of a shard that moves between two app instances of one
	// node, in the headers of the app.
	SiblingEpoch = "sibling-epoch"
	// UnreachableOwner makes the leader ignore that most nodes cannot connect to an owner.
	UnreachableOwner = "unreachable-owner"
	// OtherService sends each request to the first service, as if all routes belonged to it.
	OtherService = "other-service"
)

// edits returns the edits of the bugs, in this order, and then the edits that report
// them.
func edits() []overlay.Edit {
	return []overlay.Edit{
		after("ack/agent.Agent.acknowledgeDrained", "if a.options.Gate.CountRunning(a.follower.MayRun) > 0", ` && planted != "two-owners"`),
		after("ack/leader.membership.chooseUnreachable", "if !ms.reports.anyReported", ` || planted == "unreachable-owner"`),
		after("keysource.Services.Match", "	search.in(s.anyHost)\n", `	if planted == "other-service" {
		search.service = 0
	}
`),
		{Decl: "node/router.Router.SwapTable", Old: "return proxyRoute(routing.Route(shard))", New: "return r.plantedRoute(proxyRoute(routing.Route(shard)), state.Committed(), shard)"},
		before("node/router.Router.SetLease", "	if previous = time.Duration(r.leaseEnd.Swap(int64(end))); previous != end {\n", `	if planted == "no-lease" {
		end = r.clock.Precise() + time.Hour
	}
`),
		after("proxy.retrier.decideRetry", `if detail := retry.retryDenialReason(attempt, cancelCause); detail != "" `, `&& planted != "double-run" `),
		after("proxy.router.routeUntilAnswered", "if result = router.waitFor(result); result.action == actionRetry", ` && planted != "swallowed-answer"`),
		after("proxy.reply.sendProblemWith", "	status := prob.StatusCode()\n", `	if planted == "no-run" && prob.Code == problem.UpstreamRefused {
		status = 200
	}
`),
		before("proxy.client.beginExchange", "	c.exchange = exchange{\n		safety:", `	last, again := c.exchange.shard, c.exchange.hasShard
`),
		after("proxy.client.beginExchange", "	c.body.Reset()\n", `	if planted == "other-shard" && again {
		c.exchange.shard, c.exchange.hasShard = last, true
	}
`),
		{Decl: "proxy.requestWriter.appendAtIngress", Old: "attempt.slot.Events.LastEventID())", New: `func() []byte {
				if planted == "repeated-event" {
					return nil
				}
				return attempt.slot.Events.LastEventID()
			}())`},
		after("proxy.responseRelay.mustResumeStream", "	if stream == nil || writeErr != nil", ` || planted == "cut-stream"`),
		before("internal/cli.runCommand.Run", "\tmemory.Limit(log)\n", `	if err = reportPlantedBug(log); err != nil {
		return err
	}
`),
		after("internal/cli.versionCommand.Run", "text := build.String()\n", `	text += ", BUILT WITH BUGS for tests, not for use (" + planted + ")"
`),
	}
}

// after returns an edit that inserts code after a text of a declaration.
func after(decl, text, code string) overlay.Edit {
	return overlay.Edit{Decl: decl, Old: text, New: text + code}
}

// before returns an edit that inserts code before a text of a declaration.
func before(decl, text, code string) overlay.Edit {
	return overlay.Edit{Decl: decl, Old: text, New: code + text}
}

// plantedSource is added to every package with bugs.
const plantedSource = `package %s

import "os"

// planted is read once, before main, and never changes.
var planted = os.Getenv(%q)
`

// routerSource is added to package node/router.
const routerSource = `package router

import (
	"sync"

	"shardway/proxy/route"
	"shardway/shardmap"
)

var firstEpochs sync.Map // by shard: the first observed epoch

// plantedRoute returns a route with the epoch that the app receives.
func (r *Router) plantedRoute(to route.Route, committed *shardmap.Map, sh shardmap.Shard) route.Route {
	if to.Kind == route.Local {
		to.Epoch = r.plantedEpoch(committed, sh)
	}
	return to
}

// plantedEpoch returns the ownership epoch that the app receives.
func (r *Router) plantedEpoch(committed *shardmap.Map, sh shardmap.Shard) uint64 {
	epoch := uint64(committed.OwnedSince(sh))
	switch planted {
	case "same-epoch":
		if old := r.state.Load().Committed(); old.Epoch() != 0 {
			epoch = uint64(old.OwnedSince(sh))
		}
	case "sibling-epoch":
		if old := r.state.Load().Committed(); old.Epoch() != 0 && old.Owner(sh) == committed.Owner(sh) {
			epoch = uint64(old.OwnedSince(sh))
		}
	case "stale-epoch":
		first, _ := firstEpochs.LoadOrStore(sh, epoch)
		epoch = first.(uint64)
	}
	return epoch
}
`

// cliSource is added to package internal/cli.
const cliSource = `package cli

import (
	"fmt"
	"slices"

	"github.com/rs/zerolog"
)

// reportPlantedBug logs that this program was built with bugs. It returns an error for an unknown
// name.
func reportPlantedBug(log zerolog.Logger) error {
	if names := %#v; planted != "" && !slices.Contains(names, planted) {
		return fmt.Errorf("%s=%%q: unknown bug; use one of %%q", planted, names)
	}
	log.Error().Str("bug", planted).Str("effect", "must not serve clients").Msg("test binary with planted bugs")
	return nil
}
`

// Names returns the names of all bugs.
func Names() []string {
	return []string{TwoOwners, SameEpoch, StaleEpoch, DoubleRun, SwallowedAnswer, NoRun, NoLease, OtherShard, RepeatedEvent, CutStream, SiblingEpoch, UnreachableOwner, OtherService}
}

// Overlay writes the files of the overlay into dir and returns the argument of go build
// -overlay. root is the root of the module.
func Overlay(root, dir string) (string, error) {
	files := overlay.New(root)
	for _, pkg := range []string{"ack/agent", "ack/leader", "keysource", "node/router", "proxy", "internal/cli"} {
		files.Add(pkg+"/planted.go", fmt.Sprintf(plantedSource, path.Base(pkg), Variable))
	}
	files.Add("node/router/planted_epochs.go", routerSource)
	files.Add("internal/cli/planted_own.go", fmt.Sprintf(cliSource, Names(), Variable))
	for _, edit := range edits() {
		if err := files.Edit(edit); err != nil {
			return "", err
		}
	}
	return files.Write(dir)
}
