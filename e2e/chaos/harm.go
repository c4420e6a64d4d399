//go:build linux

package chaos

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"shardway/e2e/history"
	"shardway/e2e/load"
)

// harm says how a node was hurt.
type harm int

const (
	// killed: its process died without a word.
	killed harm = iota + 1
	// stopped: its process stood still.
	stopped
	// apart: packets between it and others were dropped, or refused.
	apart
	// bereft: its app died.
	bereft
	// broken: its disk refused to take what it wrote; it may have ended itself.
	broken
)

// String names the harm.
func (h harm) String() string {
	switch h {
	case killed:
		return "killed"
	case stopped:
		return "stopped"
	case apart:
		return "apart"
	case bereft:
		return "without an app"
	case broken:
		return "without a disk"
	}
	return fmt.Sprintf("harm(%d)", int(h))
}

// wound is a harm to one node, from its beginning until all nodes served again; 0
// while it lasts.
type wound struct {
	harm
	node        string
	from, until int64
	// deaths are the times in which its process died.
	deaths []death
}

// death bounds the moment in which a process lost its connections.
type death struct{ after, before int64 }

// meets tells whether an attempt was under way then.
func (d death) meets(t history.Attempt) bool { return d.after <= t.Done && t.Sent <= d.before }

// during tells whether it lasted at any time of an interval.
func (w *wound) during(from, until int64) bool {
	end := w.until
	if end == 0 {
		end = math.MaxInt64
	}
	return w.from <= until && from <= end
}

// alibi decides which requests of a round had a right to fail.
type alibi struct {
	wounds []wound
	// owners are the nodes that owned a shard at any time of the round.
	owners func(shard int) map[string]bool
	// nodes tells whose address a target is.
	nodes     map[string]string
	shards    int
	queueWait time.Duration
}

// excuse is why a request that failed had to; empty if it had not. That is never so
// unless its ingress node or an owner of its key was hurt while it was under way.
func (x *alibi) excuse(a *history.Answer) string {
	if len(a.Attempts) == 0 {
		return ""
	}
	last := a.Attempts[len(a.Attempts)-1]
	ingress := x.nodes[last.Target]
	owners := x.owners(load.ShardOf(a.Key, x.shards))
	for i := range x.wounds {
		w := &x.wounds[i]
		if !w.during(a.Sent(), a.Done()) || w.node != ingress && !owners[w.node] {
			continue
		}
		if why := x.way(a, w, ingress); why != "" {
			return why
		}
	}
	return ""
}

// way tells whether a wound may end a request in the way it ended.
func (x *alibi) way(a *history.Answer, w *wound, ingress string) string {
	last := a.Attempts[len(a.Attempts)-1]
	mayHaveRun := !a.Safe() && strings.Contains(a.Detail, "may have run")
	switch {
	case a.Status == 0:
		// No answer at all: only from a process that died, while it had the request.
		if w.node == ingress && slices.ContainsFunc(w.deaths, func(d death) bool { return d.meets(last) }) {
			return "lost, its ingress died"
		}
	case a.Status == http.StatusOK && a.Cut:
		if w.node == a.App || w.node == ingress && w.harm != bereft {
			return "cut, " + w.String()
		}
	case a.Error == "":
		return "" // an error of the app: history judges whether it was fenced rightly
	case a.Status == http.StatusBadGateway && mayHaveRun:
		return "may have run: " + a.Error
	case a.Status == http.StatusServiceUnavailable && (a.Error == "no-leader" || a.Error == "queue-timeout" ||
		a.Error == "peer-unreachable" && w.harm == apart):
		// It may fail for waiting only after all the time that it may wait.
		if a.Done()-last.Sent >= int64(x.queueWait) {
			return "waited in vain: " + a.Error
		}
	case a.Status == http.StatusBadGateway && a.Error == "upstream-refused":
		if w.harm == bereft {
			return a.Error
		}
	case a.Status == http.StatusBadGateway && a.Error == "peer-unreachable":
		if w.harm == apart {
			return a.Error
		}
	}
	return ""
}
