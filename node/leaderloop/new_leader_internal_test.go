package leaderloop

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/internal/clock"
	"shardway/node/cluster"
)

// A new leader has received no heartbeats, and would consider all nodes dead. It waits until, for every voter, it has a heartbeat, knows
// that the voter is dead, or could have received a heartbeat. It waits no longer than it leads, or a caller waits.
func TestNewLeaderWaitsForHeartbeatsOfVoters(t *testing.T) {
	const dead = 2 * time.Second
	unheard := leader.MemberView{Node: "b", SinceHeartbeat: -1}
	crashed := unheard
	crashed.Crashed = true
	for name, tc := range map[string]struct {
		b         leader.MemberView
		heard     time.Duration // when the heartbeat of b arrives; zero means never
		led, asks time.Duration // how long it leads, and how long the caller waits
		want      time.Duration
	}{
		"all are heard":      {leader.MemberView{Node: "b"}, 0, time.Hour, time.Hour, 0},
		"heard a bit later":  {unheard, 300 * time.Millisecond, time.Hour, time.Hour, 300 * time.Millisecond},
		"never heard":        {unheard, 0, time.Hour, time.Hour, dead + leaderPollInterval},
		"known to be gone":   {crashed, 0, time.Hour, time.Hour, 0},
		"leads no more":      {unheard, 0, 100 * time.Millisecond, time.Hour, 100 * time.Millisecond},
		"nobody waits":       {unheard, 0, time.Hour, 110 * time.Millisecond, 110 * time.Millisecond},
		"unknown altogether": {leader.MemberView{Node: "c"}, 0, time.Hour, time.Hour, dead + leaderPollInterval},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := clock.Virtual()
				o := Options{Clock: c, View: cluster.NewView("a", "a/d", ack.Timing{DeadAfter: dead}, ack.NewState)}
				l := &Leadership{options: o, viewRequests: make(chan chan []leader.MemberView), loopEnded: make(chan struct{}), startedAt: c.Precise()}
				ctx, cancel := context.WithTimeout(t.Context(), tc.asks)
				defer cancel()
				began := time.Now()
				time.AfterFunc(tc.led, func() { close(l.loopEnded) })
				over := make(chan struct{})
				go func() {
					for {
						select {
						case v := <-l.viewRequests:
							b := tc.b
							if tc.heard > 0 && time.Since(began) >= tc.heard {
								b.SinceHeartbeat = 0
							}
							v <- []leader.MemberView{{Node: "a"}, b}
						case <-l.loopEnded:
							return
						case <-over:
							return
						}
					}
				}()
				l.awaitVoters(ctx, []string{"a/1", "b/1"})
				took := time.Since(began)
				close(over)
				if took < tc.want || took > tc.want+leaderPollInterval {
					t.Errorf("waited for %v, want %v", took, tc.want)
				}
			})
		})
	}
}
