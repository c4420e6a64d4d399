package node_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/node"
)

// retimes sends a node a change of settings until it is accepted: a new leader refuses changes for a while.
func (w *world) retimes(p *process, change api.Timing) {
	w.t.Helper()
	w.until("the timing is changed", func() bool {
		_, err := p.node.API().ChangeTiming(w.t.Context(), change, "test")
		if err != nil && !errors.Is(err, api.ErrRefused) {
			w.t.Fatalf("Retime(%+v) = %v", change, err)
		}
		return err == nil
	})
}

// A change requested at any node is in force on all nodes, also after a restart of all of them, and no node loses its lease.
func TestTimingChangesEverywhere(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		w.retimes(w.follower(), api.Timing{DeadAfter: "6s", Lease: "1s", RebalanceMode: "stop-the-world"})
		want := api.TimingState{
			Timing: api.Timing{Lease: "1s", DeadAfter: "6s", Takeover: "lease", RebalanceMode: "stop-the-world"},
			Before: api.Timing{Lease: "500ms", DeadAfter: "2.5s", Takeover: "lease", RebalanceMode: "incremental"},
		}
		same := func() bool {
			for _, p := range w.running() {
				got := p.node.API().Status().Timing
				if got == nil || got.Since == 0 {
					return false
				}
				if got.Since = 0; *got != want {
					return false
				}
			}
			return true
		}
		w.until("all have it", same)
		w.untilSettled("a", "b", "c")
		began, p := time.Now(), w.follower()
		rest := w.others(p)
		w.net.Isolate(p.name)
		w.untilSettled(rest...)
		if took := time.Since(began); took < 5500*time.Millisecond || took > 7*time.Second {
			w.t.Errorf("shards taken after %v, want 6s", took)
		}
		w.net.Heal()
		w.untilSettled("a", "b", "c")
		for _, p := range w.running() {
			p.kill()
		}
		for _, n := range w.names {
			w.all[n].restart()
		}
		w.untilSettled("a", "b", "c")
		w.until("all have it again", same)
	})
}

func TestNextTimingWaitsForTheLargerDeadAfter(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		w.retimes(w.leader(), api.Timing{DeadAfter: "6s"})
		began := time.Now()
		_, err := w.leader().node.API().ChangeTiming(w.t.Context(), api.Timing{DeadAfter: "2.5s"}, "test")
		why := "the timing was changed a moment ago, and nodes may still use the previous one: try again in 6s, at " + began.Add(6*time.Second).UTC().Format("15:04:05")
		if !errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), why) {
			w.t.Errorf("at once: %v, want %s", err, why)
		}
		for _, p := range w.running() {
			got, _ := p.node.API().Timing(w.t.Context())
			if d, bad := time.ParseDuration(got.BeforeCounts); bad != nil || d > 6*time.Second || d < 5900*time.Millisecond {
				w.t.Errorf("%s says that what was before counts for %q more, want 6s", p.name, got.BeforeCounts)
			}
		}
		if _, err = w.leader().node.API().ChangeTiming(w.t.Context(), api.Timing{DeadAfter: "6s"}, "test"); err != nil {
			w.t.Errorf("what is so already: %v", err)
		}
		w.retimes(w.leader(), api.Timing{DeadAfter: "2.5s"})
		if took := time.Since(began); took < 6*time.Second || took > 6500*time.Millisecond {
			w.t.Errorf("the next change after %v, want 6s", took)
		}
		w.until("the previous values no longer apply", func() bool {
			got, _ := w.follower().node.API().Timing(w.t.Context())
			return got.BeforeCounts == "0s"
		})
	})
}

// The bounds of a setting are those of all nodes, not of the leader alone. Otherwise a node with a slower heartbeat would lose its lease
// with each lost packet.
func TestTimingMustFitTheSlowestHeartbeat(t *testing.T) {
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			if o.Dir.Node() == "b" {
				o.Pace.Heartbeat = 125 * time.Millisecond
			}
		}
		w.start("a")
		w.start("b")
		w.untilSettled("a", "b")
		for _, p := range w.running() {
			_, err := p.node.API().ChangeTiming(w.t.Context(), api.Timing{Lease: "450ms"}, "test")
			const want = `lease = "450ms" breaks heartbeat ≤ lease / 4 (125ms ≤ 112.5ms)`
			if !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "of node b") {
				w.t.Errorf("%s: %v, want %s, and whose heartbeat that is", p.name, err, want)
			}
			// An error that is unrelated to a bound does not mention it.
			for _, wrong := range []api.Timing{{Takeover: "foo"}, {DeadAfter: "100ms"}} {
				if _, err = p.node.API().ChangeTiming(w.t.Context(), wrong, "test"); !errors.Is(err, api.ErrInvalid) || strings.Contains(err.Error(), "heartbeat") {
					w.t.Errorf("%s: %+v: %v, want nothing of heartbeats", p.name, wrong, err)
				}
			}
		}
	})
}

// A new leader returns that it was just elected, and not that the settings have changed. The log contains changes that happened, and no
// refused ones.
func TestRefusalOfANewLeaderNamesItsCause(t *testing.T) {
	bubble(t, func(w *world) {
		log := &lines{}
		w.tune = func(o *node.Options) { o.Log = zerolog.New(log) }
		w.start("a")
		p := w.all["a"]
		w.untilSettled("a")
		_, err := p.node.API().ChangeTiming(w.t.Context(), api.Timing{DeadAfter: "6s"}, "test")
		if !errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), "the leader was elected a moment ago, and nodes may still use an earlier timing") {
			w.t.Errorf("at once: %v, want to be told of the election", err)
		}
		if n := log.count("timing asked for") + log.count("timing changed"); n != 0 {
			w.t.Errorf("%d lines tell of a change that was refused", n)
		}
		w.retimes(p, api.Timing{DeadAfter: "6s"})
		if n := log.count("timing changed"); n != 1 || log.count("dead-after 2.5s, takeover lease") == 0 {
			w.t.Errorf("%d lines tell of the change, want one with both", n)
		}
	})
}

func TestTimingThatCannotBeIsRefusedByKeyValueAndRemedy(t *testing.T) {
	three(t, func(w *world) {
		for _, c := range []struct {
			change api.Timing
			want   string
		}{
			{api.Timing{Lease: "2s"}, `lease = "2s" breaks 2 × lease + 10 % < dead-after (4.4s < 2.5s)`},
			{api.Timing{Lease: "2s"}, "raise dead-after above 4.4s, or lower lease below 1.136s"},
			{api.Timing{DeadAfter: "850ms"}, "raise dead-after above 1.1s"},
			{api.Timing{Lease: "300ms"}, `lease = "300ms" breaks heartbeat ≤ lease / 4`},
			{api.Timing{DeadAfter: "900ms"}, `dead-after = "900ms" breaks`},
			{api.Timing{DeadAfter: "soon"}, `dead-after = "soon" is not a duration from 250ms to 1h: give a value such as 2.5s`},
			{api.Timing{Lease: "1ms"}, `lease = "1ms" is not a duration from 100ms to 4m`},
			{api.Timing{Takeover: "none"}, `takeover = "none" is not a takeover mode: give timeout, lease or immediate`},
			{api.Timing{RebalanceMode: "none"}, `rebalance_mode = "none" is not a rebalance mode: give incremental or stop-the-world`},
		} {
			for _, p := range w.running() {
				_, err := p.node.API().ChangeTiming(w.t.Context(), c.change, "test")
				if err != nil && strings.Contains(err.Error(), "lower lease below 386ms") {
					w.t.Errorf("%s, %+v: %v, which the heartbeat does not allow", p.name, c.change, err)
				}
				if !errors.Is(err, api.ErrInvalid) || errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), c.want) {
					w.t.Errorf("%s, %+v: %v, want %s", p.name, c.change, err, c.want)
				}
			}
		}
	})
}

// A node whose flags differ logs that once, with both values and the remedy.
func TestFlagsThatDifferAreReportedOnce(t *testing.T) {
	bubble(t, func(w *world) {
		log := &lines{}
		w.tune = func(o *node.Options) {
			if o.Dir.Node() == "b" {
				o.Timing.DeadAfter, o.Pace.Heartbeat, o.RemoveDeadAfter = 5*time.Second, 150*time.Millisecond, 5*time.Second
				o.Log = zerolog.New(log)
			}
		}
		w.start("a")
		w.start("b")
		w.untilSettled("a", "b")
		const flags, beat = "timing flags differ", "heartbeats too slow"
		w.until("it says so", func() bool { return log.count(flags) > 0 && log.count(beat) > 0 })
		for _, want := range []string{"dead-after 5s", "dead-after 2.5s", "start this node with --dead-after 2.5s", "shardway settings --dead-after 5s"} {
			if log.count(want) == 0 {
				w.t.Errorf("it does not say %q", want)
			}
		}
		w.retimes(w.leader(), api.Timing{DeadAfter: "3s"})
		w.until("it has the next timing", func() bool { return w.all["b"].node.State().Timing().DeadAfter == 3*time.Second })
		time.Sleep(10 * time.Second)
		if n := log.count("remove-dead-after 6s or more"); n != 1 || log.count("remove-dead-after too short") != 1 {
			w.t.Errorf("said %d times, of the timing that is too long for it, that remove-dead-after is too short", n)
		}
		if n, m := log.count(flags), log.count(beat); n != 1 || m != 2 {
			w.t.Errorf("said %d times of the flags and %d times of the heartbeat, want once, and once for each timing", n, m)
		}
		if s := w.all["a"].node.State(); s.PreviousTiming() != ack.DefaultTiming() {
			w.t.Errorf("before: %+v", s.PreviousTiming())
		}
	})
}

// lines counts the lines of a log.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(b))
	return len(b), nil
}

func (l *lines) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.text {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}
