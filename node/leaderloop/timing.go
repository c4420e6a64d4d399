package leaderloop

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

// TimingState returns the timing of the state s for the admin API.
func TimingState(s *ack.State) api.TimingState {
	return api.TimingState{Timing: timingText(s.Timing()), Since: s.TimingIndex(), Before: timingText(s.PreviousTiming())}
}

// timingText converts a timing to texts, for the admin API.
func timingText(t ack.Timing) api.Timing {
	return api.Timing{Lease: timingrules.Short(t.Lease), DeadAfter: timingrules.Short(t.DeadAfter), Takeover: t.Takeover.String(), RebalanceMode: t.RebalanceMode.String()}
}

// timingRequest is a request to the leader loop for the log entry of a new timing.
type timingRequest struct {
	timing ack.Timing
	answer chan<- timingReply // cap 1
}

// timingReply is the response to a timingRequest.
type timingReply struct {
	entry []byte
	err   error
}

// ChangeTiming changes the timing on the leader, and returns when this node has applied the change.
func (l *Leadership) ChangeTiming(ctx context.Context, change api.Timing, by string) (api.TimingState, error) {
	s := l.o.View.State()
	if !s.Bootstrapped() {
		return api.TimingState{}, fmt.Errorf("%w: the cluster does not exist yet", api.ErrRefused)
	}
	slowest, at := l.slowest(ctx)
	want, err := applyTiming(s.Timing(), change, slowest, at)
	if err != nil {
		return api.TimingState{}, err
	}
	entry, err := l.requestTiming(ctx, want)
	if want == s.Timing() { // nothing to change; err then only contains how long the previous timing still applies
		t := TimingState(s)
		t.BeforeCounts = counting(err)
		return t, nil
	}
	if err != nil {
		return api.TimingState{}, notYet(err)
	}
	if err := await(ctx, func() error { return l.raft.Apply(entry) }); err != nil {
		if err = refusal(err); !errors.Is(err, api.ErrRefused) {
			l.Log.Warn().Err(err).Str("timing", DescribeTiming(want)).Str("by", logs.Cut(by)).Msg("timing may have changed")
		}
		return api.TimingState{}, err
	}
	was := s
	if s = l.o.View.State(); s.Timing() != want { // the entry was applied without effect
		return api.TimingState{}, fmt.Errorf("%w: another change was made first: check `shardway settings`", api.ErrRefused)
	}
	l.Log.Info().Str("timing", DescribeTiming(want)).Str("before", DescribeTiming(was.Timing())).Str("by", logs.Cut(by)).Msg("timing changed")
	t := TimingState(s)
	t.BeforeCounts = timingrules.Short(max(want.DeadAfter, was.Timing().DeadAfter))
	return t, nil
}

// slowest returns the longest heartbeat interval of the nodes that send heartbeats to this leader, and the
// node with that interval.
func (l *Leadership) slowest(ctx context.Context) (every time.Duration, node string) {
	every, node = l.o.Pace.Heartbeat, string(l.o.Self)
	heard, _ := l.View(ctx)
	for _, v := range heard {
		if v.SinceHeartbeat >= 0 && !v.Silent && v.Heartbeat.Interval > every {
			every, node = v.Heartbeat.Interval, string(v.Node)
		}
	}
	return every, node
}

// requestTiming requests the log entry of a new timing from the leader loop.
func (l *Leadership) requestTiming(ctx context.Context, t ack.Timing) ([]byte, error) {
	answer := make(chan timingReply, 1)
	select {
	case l.timingRequests <- timingRequest{t, answer}:
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
	why := "the timing was changed a moment ago, and nodes may still use the previous one"
	if soon.Elected {
		why = "the leader was elected a moment ago, and nodes may still use an earlier timing"
	}
	wait := max(soon.Wait.Round(time.Millisecond), time.Millisecond)
	return fmt.Errorf("%w: %s: try again in %s, at %s", api.ErrRefused, why, timingrules.Short(wait), time.Now().Add(wait).UTC().Format("15:04:05.000Z"))
}

// applyTiming returns the timing t with a change applied. It returns an error that lists all invalid parts of
// the change, with remedies. heartbeat is the longest heartbeat interval, and of is the node with it.
func applyTiming(t ack.Timing, change api.Timing, heartbeat time.Duration, of string) (ack.Timing, error) {
	var keys, wrong []string
	refuse := func(key, value, fault string) { wrong = append(wrong, fmt.Sprintf("%s = %q %s", key, value, fault)) }
	span := func(key, value string, into *time.Duration, least, most time.Duration) {
		if value == "" {
			return
		}
		keys = append(keys, key)
		d, err := time.ParseDuration(value)
		if err != nil || d < least || d > most {
			refuse(key, value, "is not a duration from "+timingrules.Short(least)+" to "+timingrules.Short(most)+": give a value such as "+timingrules.Short(*into))
			return
		}
		*into = d
	}
	span("lease", change.Lease, &t.Lease, timingrules.MinLease, timingrules.MaxLease)
	span("dead-after", change.DeadAfter, &t.DeadAfter, timingrules.MinDeadAfter, timingrules.MaxDeadAfter)
	if f, ok := ack.ParseTakeover(change.Takeover); ok {
		t.Takeover = f
	} else if change.Takeover != "" {
		refuse("takeover", change.Takeover, "is not a takeover mode: give timeout, lease or immediate")
	}
	if p, ok := ack.ParseRebalanceMode(change.RebalanceMode); ok {
		t.RebalanceMode = p
	} else if change.RebalanceMode != "" {
		refuse("rebalance_mode", change.RebalanceMode, "is not a rebalance mode: give incremental or stop-the-world")
	}
	for _, b := range timingrules.Check(heartbeat, t.Lease, t.DeadAfter) {
		i := slices.IndexFunc(keys, func(k string) bool { return slices.Contains(b.Settings, k) })
		if b.Satisfied || i < 0 {
			continue
		}
		value := map[string]string{"lease": change.Lease, "dead-after": change.DeadAfter}[keys[i]]
		fault := "breaks " + b.Text + " (" + b.Values + "): " + b.Reason + "; " + b.Remedy
		if slices.Contains(b.Settings, "heartbeat") {
			fault += " (heartbeat is " + timingrules.Short(heartbeat) + ", of node " + of + ")"
		}
		refuse(keys[i], value, fault)
	}
	if len(wrong) > 0 {
		return t, fmt.Errorf("%w: %s", api.ErrInvalid, strings.Join(wrong, "; and "))
	}
	return t, nil
}

// DescribeTiming returns a timing as one line of text.
func DescribeTiming(t ack.Timing) string {
	w := timingText(t)
	return fmt.Sprintf("lease %s, dead-after %s, takeover %s, rebalance-mode %s", w.Lease, w.DeadAfter, w.Takeover, w.RebalanceMode)
}
