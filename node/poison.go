package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/gossip"
	"shardway/peer"
	"shardway/proxy"
	"shardway/shardmap"
)

const (
	// poisonWindow is within what time a key must have been under way at two nodes that
	// broke to be suspected.
	poisonWindow = time.Minute
	// suspectedFor is how long a suspect stands in /status, maxSuspects how many do.
	suspectedFor = time.Hour
	maxSuspects  = 64
	// maxImplications bounds what one node tells, and what the leader keeps.
	maxImplications = 64
	maxEnds         = 1024
	// impliesFor bounds how long a node tries to tell the leader, which may be the one
	// that broke, and impliesAgain is the pause between two tries.
	impliesFor   = 20 * time.Second
	impliesAgain = 200 * time.Millisecond
)

// implication is what an ingress had under way at a process that broke; a question to
// the leader has those of its last minute.
type implication struct {
	Node  string             `json:"node"`
	Boot  uint64             `json:"boot"`
	Keys  []proxy.Implicated `json:"keys"`
	AgoMS int64              `json:"ago_ms"`
	at    time.Time
}

// suspect of poison: a key that was under way at two nodes when they broke.
type poisonous struct {
	Key   proxy.Implicated `json:"key"`
	Nodes []string         `json:"nodes"` // in the order of their ends
	at    time.Time
}

// end is one end of a process, as one ingress tells of it.
type end struct {
	node string
	boot uint64
	from string
}

// poison is what a node knows of keys that may end nodes: of its own clients, and, if
// others take it for the leader, of theirs.
type poison struct {
	log zerolog.Logger

	ctx context.Context // of the run: investigations end with it
	wg  sync.WaitGroup

	mu struct {
		sync.Mutex
		own      []implication
		ends     map[end]implication
		suspects []poisonous
	}
}

// implicate adds what this node's clients had under way, and returns all of late.
func (p *poison) implicate(i implication) []implication {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.mu.own = slices.DeleteFunc(append(p.mu.own, i), func(i implication) bool { return now.Sub(i.at) > poisonWindow })
	p.mu.own = p.mu.own[max(len(p.mu.own)-maxImplications, 0):]
	return slices.Clone(p.mu.own)
}

// heard takes what an ingress tells, and judges anew.
func (p *poison) heard(from string, all []implication) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.mu.ends == nil {
		p.mu.ends = map[end]implication{}
	}
	for e, i := range p.mu.ends {
		if now.Sub(i.at) > 2*poisonWindow {
			delete(p.mu.ends, e)
		}
	}
	for _, i := range all[:min(len(all), maxImplications)] {
		if len(p.mu.ends) >= maxEnds || i.AgoMS < 0 || i.AgoMS > poisonWindow.Milliseconds() {
			continue
		}
		if len(i.Keys) > proxy.MaxImplicated+1 {
			i.Keys = i.Keys[:proxy.MaxImplicated+1]
		}
		i.at = now.Add(-time.Duration(i.AgoMS) * time.Millisecond)
		p.mu.ends[end{i.Node, i.Boot, from}] = i
	}
	p.judge(now)
}

// judge looks for keys that were under way at two nodes which broke. With mu held.
func (p *poison) judge(now time.Time) {
	for key, seen := range p.implicated() {
		slices.SortFunc(seen, func(a, b implication) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.Node, b.Node)) })
		for i := range seen[1:] {
			if a, b := seen[i], seen[i+1]; a.Node != b.Node && b.at.Sub(a.at) <= poisonWindow {
				p.suspect(poisonous{Key: key, Nodes: []string{a.Node, b.Node}, at: now})
				break
			}
		}
	}
}

// implicated returns where each key was under way at an end that implicates: at most
// MaxImplicated were, at all ingress nodes together.
func (p *poison) implicated() map[proxy.Implicated][]implication {
	type process struct {
		node string
		boot uint64
	}
	keys := map[process]map[proxy.Implicated]implication{}
	for e, i := range p.mu.ends {
		of := process{e.node, e.boot}
		if keys[of] == nil {
			keys[of] = map[proxy.Implicated]implication{}
		}
		for _, k := range i.Keys {
			keys[of][k] = i
		}
	}
	seen := map[proxy.Implicated][]implication{}
	for _, at := range keys {
		if len(at) > proxy.MaxImplicated {
			continue
		}
		for k, i := range at {
			seen[k] = append(seen[k], i)
		}
	}
	return seen
}

// suspect notes a suspect, and says so once. With mu held.
func (p *poison) suspect(s poisonous) {
	if i := slices.IndexFunc(p.mu.suspects, func(o poisonous) bool { return o.Key == s.Key }); i >= 0 {
		p.mu.suspects[i] = s
		return
	}
	if len(p.mu.suspects) >= maxSuspects {
		return // those that there are are enough to do
	}
	p.mu.suspects = append(p.mu.suspects, s)
	p.log.Warn().Uint32("shard", uint32(s.Key.Shard)).Str("key_hash", fmt.Sprintf("%016x", s.Key.Hash)).Strs("nodes", s.Nodes).Msg("poison request suspected")
}

// list returns the suspects, the oldest first.
func (p *poison) list() []poisonous {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.mu.suspects = slices.DeleteFunc(p.mu.suspects, func(s poisonous) bool { return now.Sub(s.at) > suspectedFor })
	return slices.Clone(p.mu.suspects)
}

// wrecked is told of requests that were under way at another node when their connections
// broke. It finds out in the background whether its process did, and tells the leader.
func (n *Node) wrecked(w proxy.Wreck) {
	at := time.Now()
	n.poison.mu.Lock()
	defer n.poison.mu.Unlock()
	if n.poison.ctx.Err() != nil {
		return // the node has stopped meanwhile
	}
	n.poison.wg.Go(func() {
		ctx, cancel := context.WithTimeout(n.poison.ctx, impliesFor)
		defer cancel()
		if !n.processBroke(ctx, w) {
			return
		}
		all := n.poison.implicate(implication{Node: w.Node, Boot: w.Boot, Keys: w.Keys, at: at})
		for !n.tellImplicated(ctx, all) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(impliesAgain):
			}
		}
	})
}

// processBroke reports whether the process of a wreck is there no more, and was not told
// to stop: nobody listens where it was, or another one does.
func (n *Node) processBroke(ctx context.Context, w proxy.Wreck) bool {
	for pause := 4 * redialPause; ; pause = min(2*pause, time.Second) {
		dialing, cancel := context.WithTimeout(ctx, time.Second)
		c, err := n.port.Dial(dialing, w.Node, peer.Control)
		cancel()
		switch {
		case n.leftByPlan(w.Node):
			return false
		case err == nil:
			boot := c.Boot()
			closeStream(c)
			return boot != w.Boot
		case peer.IsRefused(err):
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// leftByPlan reports whether gossip knows that the node leaves or has left.
func (n *Node) leftByPlan(node string) bool {
	return slices.ContainsFunc(n.gossip.Members(), func(m gossip.Member) bool {
		return m.ID == node && (m.Status == gossip.Leaving || m.Status == gossip.Left)
	})
}

// tellImplicated tells whoever leads.
func (n *Node) tellImplicated(ctx context.Context, all []implication) bool {
	now := time.Now()
	for i := range all {
		all[i].AgoMS = now.Sub(all[i].at).Milliseconds()
	}
	switch leader := n.leader(); leader {
	case "":
		return false
	case string(n.self):
		n.poison.heard(string(n.self), all)
		return true
	default:
		dialing, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return n.ask(dialing, leader, request{What: askImplicated, Implicated: all}, nil) == nil
	}
}

// suspected returns the keys that the leader suspects; nil: it does not say.
func (n *Node) suspected(ctx context.Context) (all []poisonous) {
	switch leader := n.leader(); leader {
	case "":
		return nil
	case string(n.self):
		all = n.poison.list()
	default:
		asking, cancel := context.WithTimeout(ctx, viewTimeout)
		defer cancel()
		if err := n.ask(asking, leader, request{What: askSuspects}, &all); err != nil {
			n.log.Debug().Err(err).Msg("leader's suspects not available")
			return nil
		}
	}
	if all == nil {
		all = []poisonous{}
	}
	return all
}

// quarantines reports whether a key is in quarantine.
func quarantines(p *ack.Policy, shard shardmap.Shard, hash uint64) bool {
	for m := range p.Quarantined {
		if m.Shard == shard && m.Hash == hash {
			return true
		}
	}
	return false
}
