package consensus_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"shardway/internal/raceflag"
)

// Under random faults of servers, disks and network, each entry that Apply confirmed is in every log, in the same order. After the faults
// have ended, the servers continue.
func TestChaosLosesNothingAndHeals(t *testing.T) {
	for seed := range uint64(raceflag.Share(4, 1)) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			bubble(t, abc(), compacting, func(g *group) {
				c := &chaos{g: g, rnd: rand.New(rand.NewPCG(seed, 1))}
				c.run(3 * time.Minute)
				c.heal()
				c.check()
			})
		})
	}
}

// chaos injects random faults into a group while entries are applied.
type chaos struct {
	g         *group
	rnd       *rand.Rand
	mu        sync.Mutex
	confirmed []string
	n         int
	wg        sync.WaitGroup
}

func (c *chaos) run(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
		s := c.g.all[c.rnd.IntN(len(c.g.all))]
		switch c.rnd.IntN(8) {
		case 0:
			c.crash(s)
		case 1:
			c.g.net.Isolate(s.host.Name())
		case 2:
			c.g.net.Heal()
		case 3:
			if s.stop != nil {
				s.host.Freeze()
				time.Sleep(time.Duration(c.rnd.IntN(3000)) * time.Millisecond)
				s.host.Thaw()
			}
		case 4:
			c.hang(s)
		case 5:
			if s.stop != nil {
				r := s.Raft
				c.wg.Go(func() { _ = r.Campaign() })
			}
		case 6:
			if s.stop != nil {
				r := s.Raft
				c.wg.Go(func() { _ = r.Transfer(anyServer) })
			}
		}
		for range c.rnd.IntN(10) {
			c.apply()
		}
		time.Sleep(time.Duration(c.rnd.IntN(1500)) * time.Millisecond)
		for _, s := range c.g.all {
			if s.stop == nil && c.rnd.IntN(3) == 0 {
				s.restart()
			}
		}
	}
}

func (c *chaos) crash(s *server) {
	if s.stop != nil {
		s.crash()
	}
}

// hang makes a disk hang for a while.
func (c *chaos) hang(s *server) {
	d := time.Duration(c.rnd.IntN(5000)) * time.Millisecond
	until := time.Now().Add(d)
	s.mem.SetStoreFault(func(string) error {
		time.Sleep(time.Until(until))
		return nil
	})
}

// apply sends an entry to the leader, if there is one.
func (c *chaos) apply() {
	for _, s := range c.g.all {
		if s.stop == nil || !s.IsLeader() {
			continue
		}
		e := fmt.Sprint("e", c.n)
		c.n++
		r := s.Raft
		c.wg.Go(func() {
			if r.Apply([]byte(e)) == nil {
				c.mu.Lock()
				c.confirmed = append(c.confirmed, e)
				c.mu.Unlock()
			}
		})
	}
}

func (c *chaos) heal() {
	c.g.net.Heal()
	for _, s := range c.g.all {
		s.mem.SetStoreFault(nil)
		if s.stop == nil {
			s.restart()
		}
	}
	c.wg.Wait()
	l := c.g.leader(c.g.all...)
	c.g.apply(l, "last")
	d := c.g.agree(1, c.g.all...)
	c.g.t.Logf("%d entries confirmed, %d in the log, agreed after %v", len(c.confirmed), len(l.fsm.have()), d)
}

func (c *chaos) check() {
	log := c.g.all[0].fsm.have()
	seen := map[string]int{}
	for _, e := range log {
		seen[e]++
	}
	for _, e := range c.confirmed {
		if seen[e] != 1 {
			c.g.t.Errorf("confirmed entry %s is %d times in the log", e, seen[e])
		}
	}
	if len(c.confirmed) < 50 {
		c.g.t.Errorf("only %d entries confirmed", len(c.confirmed))
	}
	var want []string
	for _, s := range c.g.all {
		want = append(want, s.id())
	}
	slices.Sort(want)
	if got := c.g.all[0].Voters(); !slices.Equal(got, want) {
		c.g.t.Errorf("voters %v, want %v", got, want)
	}
}
