package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/internal/timingrules"
	"shardway/node/control"
	"shardway/node/logs"
)

// Timing returns the timing of the cluster: that of the leader if it responds within viewTimeout, otherwise
// that of this node's log. It returns false if there is no cluster yet.
func (n *Node) Timing(ctx context.Context) (api.TimingState, bool) {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	if told, err := n.askRetime(ctx, api.Timing{}, ""); err == nil {
		return told, true
	}
	s := n.fsm.state.Load()
	return stateOf(s), s.Bootstrapped()
}

// stateOf returns the timing of the state s for the admin API.
func stateOf(s *ack.State) api.TimingState {
	return api.TimingState{Timing: worded(s.Timing()), Since: s.TimingSince(), Before: worded(s.TimingBefore())}
}

// worded converts a timing to texts, for the admin API.
func worded(t ack.Timing) api.Timing {
	return api.Timing{Lease: timingrules.Short(t.Lease), DeadAfter: timingrules.Short(t.DeadAfter), Takeover: t.Takeover.String(), RebalanceMode: t.RebalanceMode.String()}
}

// Retime changes the timing of the cluster. Only the leader can do that, so another node sends a request to
// the leader. by is the requester, for the log.
func (n *Node) Retime(ctx context.Context, change api.Timing, by string) (t api.TimingState, err error) {
	ctx, cancel := context.WithTimeout(ctx, control.HandlerTimeout)
	defer cancel()
	return n.askRetime(ctx, change, by)
}

// askRetime asks the leader to change the timing. An empty change returns the present timing.
func (n *Node) askRetime(ctx context.Context, change api.Timing, by string) (t api.TimingState, err error) {
	if l := n.leadership(); l != nil {
		return l.retime(ctx, change, by)
	}
	leader := n.view.Leader()
	if leader == "" {
		return t, fmt.Errorf("%w: %s", api.ErrNoLeader, n.leaderless())
	}
	err = n.client.CallLeader(ctx, leader, control.Request{Kind: control.Timing, Timing: change, By: by}, &t)
	return t, err
}

// retiming is a request to the leader loop for the log entry of a new timing.
type retiming struct {
	timing ack.Timing
	answer chan<- retimed // cap 1
}

// retimed is the response to a retiming.
type retimed struct {
	entry []byte
	err   error
}

// retime changes the timing on the leader, and returns when this node has applied the change.
func (l *leadership) retime(ctx context.Context, change api.Timing, by string) (api.TimingState, error) {
	s := l.n.fsm.state.Load()
	if !s.Bootstrapped() {
		return api.TimingState{}, fmt.Errorf("%w: there is no cluster yet", api.ErrRefused)
	}
	slowest, at := l.slowest(ctx)
	want, err := changed(s.Timing(), change, slowest, at)
	if err != nil {
		return api.TimingState{}, err
	}
	entry, err := l.retiming(ctx, want)
	if want == s.Timing() { // nothing to change; err then only contains how long the previous timing still applies
		t := stateOf(s)
		t.BeforeCounts = counting(err)
		return t, nil
	}
	if err != nil {
		return api.TimingState{}, notYet(err)
	}
	if err := await(ctx, func() error { return l.raft.Apply(entry) }); err != nil {
		if err = refusal(err); !errors.Is(err, api.ErrRefused) {
			l.log.Warn().Err(err).Str("timing", describe(want)).Str("by", logs.Cut(by)).Msg("timing may have changed")
		}
		return api.TimingState{}, err
	}
	was := s
	if s = l.n.fsm.state.Load(); s.Timing() != want { // the entry was applied without effect
		return api.TimingState{}, fmt.Errorf("%w: another change came first: look at `shardway settings`", api.ErrRefused)
	}
	l.log.Info().Str("timing", describe(want)).Str("before", describe(was.Timing())).Str("by", logs.Cut(by)).Msg("timing changed")
	t := stateOf(s)
	t.BeforeCounts = timingrules.Short(max(want.DeadAfter, was.Timing().DeadAfter))
	return t, nil
}

// slowest returns the longest heartbeat interval of the nodes that send heartbeats to this leader, and the
// node with that interval.
func (l *leadership) slowest(ctx context.Context) (every time.Duration, node string) {
	every, node = l.n.o.Pace.Heartbeat, string(l.n.self)
	heard, _ := l.view(ctx)
	for _, v := range heard {
		if v.SinceHeartbeat >= 0 && !v.Silent && v.Heartbeat.Every > every {
			every, node = v.Heartbeat.Every, string(v.Node)
		}
	}
	return every, node
}

// retiming requests the log entry of a new timing from the leader loop.
func (l *leadership) retiming(ctx context.Context, t ack.Timing) ([]byte, error) {
	answer := make(chan retimed, 1)
	select {
	case l.retimes <- retiming{t, answer}:
	case <-l.done:
		return nil, control.ErrNotLeader
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r := <-answer
	return r.entry, r.err
}

// counting returns how much longer the previous timing still applies, computed from the error of a change
// of the timing. Empty means unknown.
func counting(err error) string {
	if soon, ok := errors.AsType[leader.TooSoonError](err); ok {
		return timingrules.Short(max(soon.Wait.Round(time.Millisecond), time.Millisecond))
	}
	if err != nil {
		return ""
	}
	return "0s"
}

// notYet converts the error of a change that is not possible now. The result contains the reason, and the
// time from which the change is possible.
func notYet(err error) error {
	soon, ok := errors.AsType[leader.TooSoonError](err)
	switch {
	case errors.Is(err, leader.ErrNotYet):
		return fmt.Errorf("%w: the leader was elected a moment ago and is not ready: try again", api.ErrRefused)
	case !ok:
		return err
	}
	why := "the timing was changed a moment ago, and nodes may still run what the one before it let them"
	if soon.Elected {
		why = "the leader was elected a moment ago and does not know for how long nodes may still run what an earlier timing let them"
	}
	wait := max(soon.Wait.Round(time.Millisecond), time.Millisecond)
	return fmt.Errorf("%w: %s: try again in %s, at %s", api.ErrRefused, why, timingrules.Short(wait), time.Now().Add(wait).UTC().Format("15:04:05.000Z"))
}

// changed returns the timing t with a change applied. It returns an error that lists all invalid parts of
// the change, with remedies. heartbeat is the longest heartbeat interval, and of is the node with it.
func changed(t ack.Timing, change api.Timing, heartbeat time.Duration, of string) (ack.Timing, error) {
	var keys, wrong []string
	refuse := func(key, value, fault string) { wrong = append(wrong, fmt.Sprintf("%s = %q %s", key, value, fault)) }
	span := func(key, value string, into *time.Duration, least, most time.Duration) {
		if value == "" {
			return
		}
		keys = append(keys, key)
		d, err := time.ParseDuration(value)
		if err != nil || d < least || d > most {
			refuse(key, value, "is not a duration from "+timingrules.Short(least)+" to "+timingrules.Short(most)+": give one such as "+timingrules.Short(*into))
			return
		}
		*into = d
	}
	span("lease", change.Lease, &t.Lease, timingrules.MinLease, timingrules.MaxLease)
	span("dead-after", change.DeadAfter, &t.DeadAfter, timingrules.MinDeadAfter, timingrules.MaxDeadAfter)
	if f, ok := ack.ParseTakeover(change.Takeover); ok {
		t.Takeover = f
	} else if change.Takeover != "" {
		refuse("takeover", change.Takeover, "is none: give timeout, lease or immediate")
	}
	if p, ok := ack.ParseRebalanceMode(change.RebalanceMode); ok {
		t.RebalanceMode = p
	} else if change.RebalanceMode != "" {
		refuse("rebalance_mode", change.RebalanceMode, "is none: give incremental or stop-the-world")
	}
	for _, b := range timingrules.Check(heartbeat, t.Lease, t.DeadAfter) {
		i := slices.IndexFunc(keys, func(k string) bool { return slices.Contains(b.Keys, k) })
		if b.Holds || i < 0 {
			continue
		}
		value := map[string]string{"lease": change.Lease, "dead-after": change.DeadAfter}[keys[i]]
		fault := "breaks " + b.Text + " (" + b.Figures + "): " + b.Why + "; " + b.Remedy
		if slices.Contains(b.Keys, "heartbeat") {
			fault += " (heartbeat is " + timingrules.Short(heartbeat) + ", of node " + of + ")"
		}
		refuse(keys[i], value, fault)
	}
	if len(wrong) > 0 {
		return t, fmt.Errorf("%w: %s", api.ErrInvalid, strings.Join(wrong, "; and "))
	}
	return t, nil
}

// describe returns a timing as one line of text.
func describe(t ack.Timing) string {
	w := worded(t)
	return fmt.Sprintf("lease %s, dead-after %s, takeover %s, rebalance-mode %s", w.Lease, w.DeadAfter, w.Takeover, w.RebalanceMode)
}

// compareTiming logs warnings about the timing of the cluster, once for each timing:
//
//   - The flags of this node contain another timing, which has no effect. This is logged only for the
//     first timing after the start.
//   - The heartbeat interval of this node is too long for the timing.
//   - RemoveDeadAfter is too short for the timing.
//
// said is the index of the log entry of the timing that was compared last. compareTiming returns its new
// value.
func (n *Node) compareTiming(said uint64) uint64 {
	s := n.fsm.state.Load()
	if !s.Bootstrapped() || !n.agent.upToDate.Load() || s.TimingSince() == said {
		return said
	}
	t := s.Timing()
	if said == 0 && n.o.Timing != t {
		n.log.Warn().Str("flags", describe(n.o.Timing)).Str("cluster", describe(t)).
			Str("remedy", "start this node with "+flagsOf(t, n.o.Timing)+", or change the cluster's: shardway settings "+flagsOf(n.o.Timing, t)).
			Msg("timing flags differ from cluster settings")
	}
	for _, b := range timingrules.Check(n.o.Pace.Heartbeat, t.Lease, t.DeadAfter) {
		if !b.Holds {
			n.log.Warn().Str("breaks", b.Text).Str("figures", b.Figures).Str("remedy", b.Remedy).Msg("heartbeats too slow for cluster settings")
		}
	}
	if d := n.o.RemoveDeadAfter; d > 0 && d < 2*t.DeadAfter {
		n.log.Warn().Str("remove_dead_after", timingrules.Short(d)).Str("dead_after", timingrules.Short(t.DeadAfter)).
			Str("remedy", "start this node with --remove-dead-after "+timingrules.Short(2*t.DeadAfter)+" or more").
			Msg("remove-dead-after too short")
	}
	return s.TimingSince()
}

// flagsOf returns the flags of timing t whose values differ from those of other.
func flagsOf(t, other ack.Timing) string {
	var flags []string
	for _, f := range [][3]string{
		{"lease", timingrules.Short(t.Lease), timingrules.Short(other.Lease)},
		{"dead-after", timingrules.Short(t.DeadAfter), timingrules.Short(other.DeadAfter)},
		{"takeover", t.Takeover.String(), other.Takeover.String()},
		{"rebalance-mode", t.RebalanceMode.String(), other.RebalanceMode.String()},
	} {
		if f[1] != f[2] {
			flags = append(flags, "--"+f[0]+" "+f[1])
		}
	}
	return strings.Join(flags, " ")
}
