package leaderloop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/node/consensus"
	"shardway/node/control"
	"shardway/shardmap"
)

// A drained node may stop soon. Without it there must be a quorum of nodes that send heartbeats, stay and are not drained, and a node that
// may own shards.
func TestEndOfANodeEndangersWhatIsLeft(t *testing.T) {
	const few, none = "voters remain", "no other node can own the shards"
	healthy := leader.MemberView{SinceHeartbeat: time.Second, Eligible: true}
	gateway := leader.MemberView{SinceHeartbeat: time.Second}
	leaves, says := healthy, healthy
	leaves.Heartbeat.Leaving, says.Heartbeat.Goodbye = true, true
	unheard, silent, crashed := healthy, healthy, healthy
	unheard.SinceHeartbeat, silent.Silent, crashed.Crashed = -1, true, true
	three := []string{"a/1", "b/1", "c/1"}
	for _, tc := range []struct {
		name    string
		voters  []string
		b, c, d *leader.MemberView // views of the other nodes; a is the node to drain
		policy  ack.Policy
		why     []string // nil means that nothing is endangered
	}{
		{"all are well", three, &healthy, &healthy, nil, ack.Policy{}, nil},
		{"itself it is drained already", three, &healthy, &healthy, nil, ack.Policy{Drained: map[shardmap.NodeID]bool{"a": true}}, nil},
		{"four", []string{"a/1", "b/1", "c/1", "d/1"}, &healthy, &healthy, &healthy, ack.Policy{}, nil},
		{"two of four", []string{"a/1", "b/1", "c/1", "d/1"}, &healthy, &healthy, &silent, ack.Policy{}, []string{few, "2 of 4", "3 are required (d sends no heartbeats)"}},
		{"the only one", []string{"a/1"}, nil, nil, nil, ack.Policy{}, []string{few, "0 of 1 voters remain and 1 are required: when"}},
		{"never heard", three, &unheard, &healthy, nil, ack.Policy{}, []string{few, "(b sends no heartbeats)"}},
		{"silent", three, &silent, &healthy, nil, ack.Policy{}, []string{few, "(b sends no heartbeats)"}},
		{"crashed", three, &healthy, &crashed, nil, ack.Policy{}, []string{few, "(c sends no heartbeats)"}},
		{"nobody knows it", three, &healthy, nil, nil, ack.Policy{}, []string{few, "(c sends no heartbeats)"}},
		{"leaving", three, &leaves, &healthy, nil, ack.Policy{}, []string{few, "(b is leaving)"}},
		{"has said goodbye", three, &healthy, &says, nil, ack.Policy{}, []string{few, "(c is leaving)"}},
		{"drained", three, &healthy, &healthy, nil, ack.Policy{Drained: map[shardmap.NodeID]bool{"b": true}}, []string{few, "(b is drained)"}},
		{"being emptied", three, &healthy, &healthy, nil, ack.Policy{GradualDrains: map[shardmap.NodeID]ack.GradualDrain{"b": {}}}, []string{few, "(b is drained)"}},
		{"gateways", three, &gateway, &gateway, nil, ack.Policy{}, []string{none}},
		{"one that may own some", three, &gateway, &gateway, &healthy, ack.Policy{}, nil},
		{"that one is drained", three, &gateway, &gateway, &healthy, ack.Policy{Drained: map[shardmap.NodeID]bool{"d": true}}, []string{none}},
	} {
		a := healthy
		a.Node = "a"
		views := []leader.MemberView{a}
		for id, v := range map[shardmap.NodeID]*leader.MemberView{"b": tc.b, "c": tc.c, "d": tc.d} {
			if v != nil {
				known := *v
				known.Node = id
				views = append(views, known)
			}
		}
		why, remedy := StopRisk("a", tc.voters, views, &tc.policy)
		if (why == "") != (tc.why == nil) || (remedy == "") != (tc.why == nil) {
			t.Errorf("%s: %q; %q, want %q", tc.name, why, remedy, tc.why)
		}
		for _, want := range tc.why {
			if !strings.Contains(why, want) {
				t.Errorf("%s: %q, want %q", tc.name, why, want)
			}
		}
	}
}

// An action that is reported as refused certainly did not happen. An action with an unknown result is not reported as refused.
func TestOnlyWhatDidNotHappenIsRefused(t *testing.T) {
	for _, tc := range []struct {
		err, want error
		refused   bool
	}{
		{consensus.ErrUnknown, api.ErrUnknown, false},
		{context.DeadlineExceeded, api.ErrUnknown, false},
		{context.Canceled, api.ErrUnknown, false},
		{errors.New("not the leader"), api.ErrRefused, true},
		{api.ErrNoLeader, api.ErrNoLeader, false},
		{api.ErrUnknown, api.ErrUnknown, false},
		{leader.ErrNotYet, api.ErrRefused, true},
		{ack.ErrChange, api.ErrInvalid, false},
		{ack.ErrPolicyFull, api.ErrRefused, true},
	} {
		got := translatePolicyError(fmt.Errorf("asked: %w", tc.err))
		if !errors.Is(got, tc.want) || errors.Is(got, api.ErrRefused) != tc.refused {
			t.Errorf("%v becomes %v, want %v", tc.err, got, tc.want)
		}
	}
	if err := translatePolicyError(nil); err != nil {
		t.Errorf("nothing becomes %v", err)
	}
	for err, want := range map[error]string{leader.ErrNotYet: "try again", ack.ErrPolicyFull: "unpin shards"} {
		if got := translatePolicyError(err); !strings.Contains(got.Error(), want) {
			t.Errorf("%v becomes %v, want %q", err, got, want)
		}
	}
}

// A caller returns at its own timeout, and at the end of the leadership, at whatever point its request waits.
func TestPolicyRequestEndsWithItsCaller(t *testing.T) {
	for name, tc := range map[string]struct {
		ask  func(ctx context.Context, l *Leadership) error
		fits int  // the number of requests that are accepted without a response
		done bool // the end of the leadership if true, otherwise the end of the caller
		want error
	}{
		"another one changes the policy":  {func(ctx context.Context, l *Leadership) error { return l.changePolicy(ctx, api.Action{}) }, 0, false, context.Canceled},
		"nobody takes it":                 {func(ctx context.Context, l *Leadership) error { return l.submitPolicyChange(ctx) }, 0, false, context.Canceled},
		"nobody answers":                  {func(ctx context.Context, l *Leadership) error { return l.submitPolicyChange(ctx) }, 1, false, context.Canceled},
		"nobody takes it any more":        {func(ctx context.Context, l *Leadership) error { return l.submitPolicyChange(ctx) }, 0, true, api.ErrNoLeader},
		"nobody answers any more":         {func(ctx context.Context, l *Leadership) error { return l.submitPolicyChange(ctx) }, 1, true, api.ErrUnknown},
		"a word that nobody hears":        {func(ctx context.Context, l *Leadership) error { l.SendContext(ctx, leader.NodeRemoved{}); return nil }, 0, false, nil},
		"a word that nobody hears longer": {func(ctx context.Context, l *Leadership) error { l.SendContext(ctx, leader.NodeRemoved{}); return nil }, 0, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &Leadership{policyLock: make(chan struct{}, 1), policyRequests: make(chan policyRequest, tc.fits), loopEnded: make(chan struct{}), messages: make(chan leader.Message)}
				l.policyLock <- struct{}{}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				switch {
				case tc.done && tc.fits > 0: // after it has been accepted
					time.AfterFunc(time.Second, func() { close(l.loopEnded) })
				case tc.done:
					close(l.loopEnded)
				case tc.fits > 0:
					time.AfterFunc(time.Second, cancel)
				default:
					cancel()
				}
				if err := tc.ask(ctx, l); !errors.Is(err, tc.want) {
					t.Errorf("%v, want %v", err, tc.want)
				}
			})
		})
	}
}

// A request to a new leader is repeated until the leader is ready, or the caller leaves.
func TestNewLeaderIsAskedAgain(t *testing.T) {
	for _, ready := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l := &Leadership{policyRequests: make(chan policyRequest), loopEnded: make(chan struct{})}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second+leaderPollInterval/2)
			defer cancel()
			asked := 0
			go func() {
				for {
					select {
					case a := <-l.policyRequests:
						if asked++; ready && asked > 3 {
							a.result <- nil
						} else {
							a.result <- leader.ErrNotYet
						}
					case <-ctx.Done():
						return
					}
				}
			}()
			err := l.submitPolicyChange(ctx, ack.Change{})
			cancel()
			synctest.Wait() // for the goroutine that counts
			if ready && (err != nil || asked != 4) || !ready && (!errors.Is(err, api.ErrRefused) || asked < 40) {
				t.Errorf("ready: %v: %v after %d questions", ready, err, asked)
			}
		})
	}
}

// The node that Raft has just elected refuses requests until its leader loop runs. The former leader repeats its
// request until then, or until the caller leaves. It does not repeat a request that was performed or refused.
func TestRequestIsRepeatedUntilNewLeaderRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		refusals int   // how often the new leader answers that it does not lead yet
		last     error // its answer after that
		want     error
	}{
		"performed at once": {0, nil, nil},
		"performed later":   {3, nil, nil},
		"refused later":     {3, api.ErrRefused, api.ErrRefused},
		"outcome unknown":   {0, api.ErrUnknown, api.ErrUnknown},
		"never leads":       {1000, nil, api.ErrNotLeader},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				calls := 0
				err := repeatUntilLeader(ctx, func() error {
					if calls++; calls <= tc.refusals {
						return control.ErrNotLeader
					}
					return tc.last
				})
				if !errors.Is(err, tc.want) || calls > 1+tc.refusals {
					t.Errorf("%v after %d calls, want %v", err, calls, tc.want)
				}
			})
		})
	}
}

// A request to Raft may take until Raft stops.
func TestNoRequestWaitsForRaftForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stopped := make(chan struct{})
		defer close(stopped)
		if err := awaitOrCancel(ctx, func() error { <-stopped; return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("await = %v, want that its time is over", err)
		}
	})
}
