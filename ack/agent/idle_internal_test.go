package agent

import (
	"testing"
	"time"

	"shardway/ack"
)

// An idle agent polls rarely, but often enough that a poll may be late on a busy machine: a gap of
// a quarter lease counts as a pause.
func TestIdleInterval(t *testing.T) {
	const ms = time.Millisecond
	for lease, want := range map[time.Duration]time.Duration{
		100 * ms: 10 * ms, 150 * ms: 17500 * time.Microsecond, 250 * ms: 42500 * time.Microsecond, 500 * ms: 100 * ms, time.Second: 200 * ms,
	} {
		a := &Agent{options: Options{Pace: ack.DefaultPace()}, holder: &LeaseHolder{leaseLength: lease}}
		if got := a.idleInterval(time.Hour); got != want {
			t.Errorf("with a lease of %v it rests for %v, want %v", lease, got, want)
		}
	}
}

// An idle agent is due for its next heartbeat, for hook calls and for their results. A gateway is
// idle without a lease, because it never has one.
func TestDueOfIdleAgent(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		set  func(a *Agent)
		want time.Duration
	}{
		"a gateway":          {func(a *Agent) { a.options.Gateway, a.holder.hasLease, a.hooks = true, false, nil }, 90 * ms},
		"without a lease":    {func(a *Agent) { a.holder.hasLease = false }, 0},
		"no hooks":           {func(a *Agent) { a.hooks = nil }, 90 * ms},
		"nothing to tell":    {func(*Agent) {}, 90 * ms},
		"a hook to retry":    {func(a *Agent) { a.hooks.nextUpdateAt = 30 * ms }, 30 * ms},
		"a hook was called":  {func(a *Agent) { a.hooks.inputsChanged = true }, 0},
		"shards to hand on":  {func(a *Agent) { a.hooks.delivery.releases = &ack.Releases{} }, 0},
		"the lease ends":     {func(a *Agent) { a.holder.leaseEnd = 40 * ms }, 40 * ms},
		"a heartbeat is due": {func(a *Agent) { a.nextHeartbeat = 20 * ms }, 20 * ms},
	} {
		a := New(Options{Pace: ack.DefaultPace(), Timing: ack.DefaultTiming(), Hooks: &HookOptions{}}, 0)
		a.hooks.inputsChanged, a.hooks.nextUpdateAt, a.nextHeartbeat, a.lastRequestAt = false, time.Hour, 90*ms, -time.Hour
		a.holder.hasLease, a.holder.leaseEnd, a.holder.leaseLength = true, 400*ms, 500*ms
		if tt.set(a); a.Due(0) != tt.want {
			t.Errorf("%s: it is due in %v, want %v", name, a.Due(0), tt.want)
		}
	}
}
