package node_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"shardway/ack"
	"shardway/admin"
	"shardway/internal/simnet"
	"shardway/node"
	"shardway/shardmap"
)

// storm does something bad to a cluster every now and then, looks all the time
// for what must never be, and at the end lets it recover.
type storm struct {
	*world
	r    *rand.Rand
	runs []func() // what ends running requests
	told []string
}

func (s *storm) say(format string, args ...any) {
	s.told = append(s.told, fmt.Sprintf("%8v ", time.Since(epochStart).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// epochStart is where a bubble's clock starts.
var epochStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// pick returns a node that runs, or nil.
func (s *storm) pick() *process {
	all := s.running()
	if len(all) == 0 {
		return nil
	}
	return all[s.r.IntN(len(all))]
}

// live lets time pass and looks on.
func (s *storm) live(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		s.check()
		time.Sleep(5 * time.Millisecond)
	}
}

// strike does one bad thing.
func (s *storm) strike() {
	p := s.pick()
	if p == nil {
		s.restartAll()
		return
	}
	switch s.r.IntN(12) {
	case 0, 1:
		s.say("kill %s", p.name)
		p.kill()
	case 2:
		s.say("kill %s, restart at once", p.name)
		p.kill()
		s.live(time.Duration(s.r.IntN(700)) * time.Millisecond)
		p.restart()
	case 3:
		s.say("isolate %s", p.name)
		s.net.Isolate(p.name)
	case 4:
		q := s.pick()
		s.say("cut %s -> %s", p.name, q.name)
		s.net.Cut(p.name, q.name)
	case 5:
		s.say("heal")
		s.net.Heal()
	case 6:
		s.say("freeze %s", p.name)
		p.host.Freeze()
		s.live(time.Duration(s.r.IntN(4000)) * time.Millisecond)
		p.host.Thaw()
	case 7:
		s.say("terminate %s", p.name)
		p.terminate()
	case 8:
		s.say("step down")
		if err := p.node.Do(s.t.Context(), admin.Action{Verb: admin.StepDown}); err != nil {
			s.say("refused: %v", err)
		}
	case 9:
		s.say("hold the log of %s", p.name)
		p.log.close()
		s.live(time.Duration(s.r.IntN(9000)) * time.Millisecond)
		p.log.open()
	case 10:
		s.begin(p)
	case 11:
		s.restartAll()
	}
}

// begin begins requests on a node; they end some strikes later.
func (s *storm) begin(p *process) {
	s.say("requests begin on %s", p.name)
	for sh := range shardmap.Shard(shards) {
		if end, ok := p.node.Run1(sh); ok && s.r.IntN(4) == 0 {
			s.runs = append(s.runs, end)
		} else if ok {
			end()
		}
	}
}

func (s *storm) endRuns() {
	for _, end := range s.runs {
		end()
	}
	s.runs = nil
}

func (s *storm) restartAll() {
	for _, n := range s.names {
		p := s.all[n]
		select {
		case <-p.done:
			s.say("restart %s", n)
			p.restart()
		default:
		}
	}
}

func runStorm(t *testing.T, seed uint64, nodes, strikes int) {
	t.Helper()
	bubble(t, func(w *world) {
		s := &storm{world: w, r: rand.New(rand.NewPCG(seed, 1))}
		defer func() {
			s.endRuns()
			if w.t.Failed() {
				for _, line := range s.told {
					w.t.Log(line)
				}
			}
		}()
		w.tune = func(o *node.Options) {
			o.Expect = nodes
			o.Timing.DrainTimeout = time.Second
			if seed%3 == 1 {
				o.Fence = ack.FenceStrict
			}
		}
		var names []string
		for i := range nodes {
			names = append(names, string(rune('a'+i)))
			w.start(names[i])
		}
		w.untilSettled(names...)
		w.untilVoters(min(nodes, 5))
		for range strikes {
			s.strike()
			s.live(time.Duration(s.r.IntN(1500)) * time.Millisecond)
			if s.r.IntN(3) == 0 {
				s.endRuns()
			}
		}
		s.say("all well again")
		s.endRuns()
		s.net.Heal()
		s.restartAll()
		w.untilSettled(names...)
	})
}

// storms is how many seeds a run takes; SHARDWAY_STORMS asks for more.
func storms(t *testing.T) (from, count uint64) {
	t.Helper()
	count = 4
	if v := os.Getenv("SHARDWAY_STORMS"); v != "" {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			t.Fatalf("SHARDWAY_STORMS=%q: want a number of seeds", v)
		}
		count = n
	}
	if v := os.Getenv("SHARDWAY_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			t.Fatalf("SHARDWAY_SEED=%q: want a seed", v)
		}
		return n, 1
	}
	return 1, count
}

func TestOneOwnerInAnyStorm(t *testing.T) {
	from, count := storms(t)
	for seed := from; seed < from+count; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { runStorm(t, seed, 3+int(seed%3)*2, 25) })
	}
}

func TestLossyNetworkStillServes(t *testing.T) {
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.Expect = 3 }
		names := []string{"a", "b", "c"}
		for _, n := range names {
			w.start(n)
		}
		w.untilSettled(names...)
		for _, a := range names {
			for _, b := range names {
				if a < b {
					w.net.SetLink(a, b, simnet.Link{Latency: time.Millisecond, Jitter: time.Millisecond, Loss: 0.3})
				}
			}
		}
		s := &storm{world: w}
		s.live(time.Minute)
		for _, a := range names {
			for _, b := range names {
				if a < b {
					w.net.SetLink(a, b, simnet.Link{Latency: time.Millisecond})
				}
			}
		}
		w.untilSettled(names...)
	})
}

func TestTwentyJoinsInAStorm(t *testing.T) {
	bubble(t, func(w *world) {
		names := []string{"n00"}
		w.start("n00")
		w.untilSettled("n00")
		for i := range 20 {
			names = append(names, fmt.Sprintf("n%02d", i+1))
			w.start(names[i+1])
		}
		w.untilSettled(names...)
		for _, m := range w.committed().Members() {
			if c := w.committed().Count(m.ID); c < shards/21 || c > shards/21+1 {
				w.t.Errorf("Count(%s) = %d, want %d or one more", m.ID, c, shards/21)
			}
		}
	})
}

func TestRollingRestartKeepsServing(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		for _, n := range []string{"a", "b", "c"} {
			w.all[n].terminate()
			w.untilSettled(w.others(w.all[n])...)
			w.all[n].restart()
			w.untilSettled("a", "b", "c")
		}
	})
}
