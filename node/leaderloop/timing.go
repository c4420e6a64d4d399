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
	"shardway/node/gossip"
	"shardway/node/logs"
)

// TimingState returns the timing of a replicated state for the admin API.
func TimingState(state *ack.State) api.TimingState {
	return api.TimingState{Timing: formatTiming(state.Timing()), Since: state.TimingIndex(), Before: formatTiming(state.PreviousTiming())}
}

// formatTiming converts a timing to the text fields of the admin API.
func formatTiming(timing ack.Timing) api.Timing {
	return api.Timing{Lease: timingrules.Short(timing.Lease), DeadAfter: timingrules.Short(timing.DeadAfter), Takeover: timing.Takeover.String(), RebalanceMode: timing.RebalanceMode.String()}
}

// timingRequest is a request to the leader loop for the log entry of a new timing.
type timingRequest struct {
	timing ack.Timing
	result chan<- timingResult // cap 1
}

// timingResult is the response to a timingRequest.
type timingResult struct {
	entry []byte
	err   error
}

// ChangeTiming changes the timing on the leader, and returns when this node has applied the change.
// requester is written to the log. A change without effect returns the current timing.
func (l *Leadership) ChangeTiming(ctx context.Context, change api.Timing, requester string) (api.TimingState, error) {
	state := l.options.View.State()
	if !state.Bootstrapped() {
		return api.TimingState{}, fmt.Errorf("%w: the cluster does not exist yet", api.ErrRefused)
	}
	interval, node := l.longestHeartbeatInterval(ctx)
	requested, err := applyTiming(state.Timing(), change, interval, node)
	if err == nil {
		err = checkTakeover(change.Takeover, l.options.View.Gossip.Members())
	}
	if err != nil {
		return api.TimingState{}, err
	}
	entry, err := l.requestTimingEntry(ctx, requested)
	if requested == state.Timing() { // nothing to change; err then only contains how long the previous timing still applies
		response := TimingState(state)
		response.BeforeCounts = previousTimingRemaining(err)
		return response, nil
	}
	if err != nil {
		return api.TimingState{}, translateTimingError(err)
	}
	if err := awaitOrCancel(ctx, func() error { return l.raft.Apply(entry) }); err != nil {
		if err = wrapChangeError(err); !errors.Is(err, api.ErrRefused) {
			l.Log.Warn().Err(err).Str("timing", DescribeTiming(requested)).Str("by", logs.Cut(requester)).Msg("timing may have changed")
		}
		return api.TimingState{}, err
	}
	previous := state
	if state = l.options.View.State(); state.Timing() != requested { // the entry was applied without effect
		return api.TimingState{}, fmt.Errorf("%w: another change was made first: check `shardway settings`", api.ErrRefused)
	}
	l.Log.Info().Str("timing", DescribeTiming(requested)).Str("before", DescribeTiming(previous.Timing())).Str("by", logs.Cut(requester)).Msg("timing changed")
	response := TimingState(state)
	response.BeforeCounts = timingrules.Short(max(requested.DeadAfter, previous.Timing().DeadAfter))
	return response, nil
}

// checkTakeover returns an error if a requested takeover is unsafe for a node that starts the processes of its app. A
// crashed or disconnected node counts, because it may return. A node that starts later checks the takeover itself.
func checkTakeover(takeover string, members []gossip.Member) error {
	if takeover != ack.TakeoverImmediate.String() {
		return nil
	}
	var nodes []string
	for _, member := range members {
		if member.Node && member.Tags.Exec && member.Status != gossip.Left {
			nodes = append(nodes, member.ID)
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	return fmt.Errorf("%w: takeover = %q would start a second process of a key before the first one has ended, because --exec is set at node %s: give lease or timeout, or first restart these nodes without --exec",
		api.ErrRefused, takeover, strings.Join(nodes, ", "))
}

// longestHeartbeatInterval returns the longest heartbeat interval of the nodes that send heartbeats to this leader, and the
// node with that interval.
func (l *Leadership) longestHeartbeatInterval(ctx context.Context) (interval time.Duration, node string) {
	interval, node = l.options.Pace.Heartbeat, string(l.options.Self)
	views, _ := l.View(ctx)
	for _, member := range views {
		if member.SinceHeartbeat >= 0 && !member.Silent && member.Heartbeat.Interval > interval {
			interval, node = member.Heartbeat.Interval, string(member.Node)
		}
	}
	return interval, node
}

// requestTimingEntry requests the log entry of a new timing from the leader loop. It returns
// leader.ErrNotYet or leader.TooSoonError if the timing cannot change now.
func (l *Leadership) requestTimingEntry(ctx context.Context, timing ack.Timing) ([]byte, error) {
	response := make(chan timingResult, 1)
	select {
	case l.timingRequests <- timingRequest{timing, response}:
	case <-l.loopEnded:
		return nil, control.ErrNotLeader
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	result := <-response
	return result.entry, result.err
}

// previousTimingRemaining returns how long the previous timing still applies, as text, or "" if that is unknown.
// err is the error of requestTimingEntry: a leader.TooSoonError contains this duration, and nil means zero.
func previousTimingRemaining(err error) string {
	if tooSoon, ok := errors.AsType[leader.TooSoonError](err); ok {
		return timingrules.Short(max(tooSoon.Wait.Round(time.Millisecond), time.Millisecond))
	}
	if err != nil {
		return ""
	}
	return "0s"
}

// translateTimingError converts the error of requestTimingEntry to an error for the operator. If the change is only
// possible later, the result contains the reason and the time from which it is possible.
func translateTimingError(err error) error {
	tooSoon, ok := errors.AsType[leader.TooSoonError](err)
	switch {
	case errors.Is(err, leader.ErrNotYet):
		return fmt.Errorf("%w: the leader was elected a moment ago and is not ready: try again", api.ErrRefused)
	case !ok:
		return err
	}
	reason := "the timing was changed a moment ago, and nodes may still use the previous one"
	if tooSoon.Elected {
		reason = "the leader was elected a moment ago, and nodes may still use an earlier timing"
	}
	wait := max(tooSoon.Wait.Round(time.Millisecond), time.Millisecond)
	return fmt.Errorf("%w: %s: try again in %s, at %s", api.ErrRefused, reason, timingrules.Short(wait), time.Now().Add(wait).UTC().Format("15:04:05.000Z"))
}

// applyTiming returns timing with a change applied, or an error that lists all invalid parts of the change,
// with remedies. heartbeat is the longest heartbeat interval of all nodes, and slowestNode is the node with
// this interval.
func applyTiming(timing ack.Timing, change api.Timing, heartbeat time.Duration, slowestNode string) (ack.Timing, error) {
	var changedSettings, problems []string
	addProblem := func(setting, value, problem string) {
		problems = append(problems, fmt.Sprintf("%s = %q %s", setting, value, problem))
	}
	applyDuration := func(setting, value string, target *time.Duration, minimum, maximum time.Duration) {
		if value == "" {
			return // not changed
		}
		changedSettings = append(changedSettings, setting)
		duration, err := time.ParseDuration(value)
		if err != nil || duration < minimum || duration > maximum {
			addProblem(setting, value, "is not a duration from "+timingrules.Short(minimum)+" to "+timingrules.Short(maximum)+": give a value such as "+timingrules.Short(*target))
			return
		}
		*target = duration
	}
	applyDuration("lease", change.Lease, &timing.Lease, timingrules.MinLease, timingrules.MaxLease)
	applyDuration("dead-after", change.DeadAfter, &timing.DeadAfter, timingrules.MinDeadAfter, timingrules.MaxDeadAfter)
	if takeover, ok := ack.ParseTakeover(change.Takeover); ok {
		timing.Takeover = takeover
	} else if change.Takeover != "" {
		addProblem("takeover", change.Takeover, "is not a takeover mode: give timeout, lease or immediate")
	}
	if mode, ok := ack.ParseRebalanceMode(change.RebalanceMode); ok {
		timing.RebalanceMode = mode
	} else if change.RebalanceMode != "" {
		addProblem("rebalance_mode", change.RebalanceMode, "is not a rebalance mode: give incremental or stop-the-world")
	}
	for _, rule := range timingrules.Check(heartbeat, timing.Lease, timing.DeadAfter) {
		i := slices.IndexFunc(changedSettings, func(setting string) bool { return slices.Contains(rule.Settings, setting) })
		if isAffected := i >= 0; rule.Satisfied || !isAffected {
			continue
		}
		setting := changedSettings[i]
		value := map[string]string{"lease": change.Lease, "dead-after": change.DeadAfter}[setting]
		problem := "breaks " + rule.Text + " (" + rule.Values + "): " + rule.Reason + "; " + rule.Remedy
		if slices.Contains(rule.Settings, "heartbeat") {
			problem += " (heartbeat is " + timingrules.Short(heartbeat) + ", of node " + slowestNode + ")"
		}
		addProblem(setting, value, problem)
	}
	if len(problems) > 0 {
		return timing, fmt.Errorf("%w: %s", api.ErrInvalid, strings.Join(problems, "; and "))
	}
	return timing, nil
}

// DescribeTiming returns a timing as one line of text.
func DescribeTiming(timing ack.Timing) string {
	text := formatTiming(timing)
	return fmt.Sprintf("lease %s, dead-after %s, takeover %s, rebalance-mode %s", text.Lease, text.DeadAfter, text.Takeover, text.RebalanceMode)
}
