package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/control"
	"shardway/node/gossip"
	"shardway/peer"
	"shardway/proxy"
	"shardway/shardmap"
)

const (
	// poisonWindow is the longest time between the ends of two nodes for which a key that had requests
	// at both becomes suspected.
	poisonWindow = time.Minute
	// suspectedFor is how long /status shows a suspected key.
	suspectedFor = time.Hour
	// maxSuspects is the largest number of suspected keys.
	maxSuspects = 64
	// maxImplications is the largest number of implications that a node sends to the leader.
	maxImplications = 64
	// maxEnds is the largest number of implications that the leader stores.
	maxEnds = 1024
	// impliesFor bounds the attempts to send an implication to the leader. The leader may be the node
	// that has ended, so a new one may have to be elected first.
	impliesFor = 20 * time.Second
	// impliesAgain is the pause between two attempts.
	impliesAgain = 200 * time.Millisecond
)

// implication lists the keys of the requests that a node had forwarded to a process when that process
// ended. A node sends the leader its implications of the last poisonWindow.
type implication struct {
	Node  string             `json:"node"`
	Boot  uint64             `json:"boot"`
	Keys  []proxy.Implicated `json:"keys"`
	AgoMS int64              `json:"ago_ms"`
	at    time.Time
}

// poisonous is a suspected key: it had requests at two nodes when they ended.
type poisonous struct {
	Key   proxy.Implicated `json:"key"`
	Nodes []string         `json:"nodes"` // in the order in which they ended
	at    time.Time
}

// end identifies the end of a process, as reported by node from.
type end struct {
	node string
	boot uint64
	from string
}

// poison detects keys whose requests may end processes. It contains the implications of this node's own
// clients and, if this node leads, those that other nodes have sent. Its methods may be called from any
// goroutine.
type poison struct {
	log zerolog.Logger

	ctx context.Context // of Node.Run: checks in the background end with it
	wg  sync.WaitGroup

	mu struct {
		sync.Mutex
		own      []implication
		ends     map[end]implication
		suspects []poisonous
	}
}

// implicate adds an implication of this node, and returns all of the last poisonWindow.
func (p *poison) implicate(i implication) []implication {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.mu.own = slices.DeleteFunc(append(p.mu.own, i), func(i implication) bool { return now.Sub(i.at) > poisonWindow })
	p.mu.own = p.mu.own[max(len(p.mu.own)-maxImplications, 0):]
	return slices.Clone(p.mu.own)
}

// heard stores the implications of a node, and updates the suspected keys.
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

// judge searches for keys that had requests at two nodes that have ended. mu must be held.
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

// implicated returns the implications of each key. It omits the ends of processes at which more than
// MaxImplicated keys had requests, counted over all reporting nodes. mu must be held.
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

// suspect adds a suspected key, and logs it if it is new. mu must be held.
func (p *poison) suspect(s poisonous) {
	if i := slices.IndexFunc(p.mu.suspects, func(o poisonous) bool { return o.Key == s.Key }); i >= 0 {
		p.mu.suspects[i] = s
		return
	}
	if len(p.mu.suspects) >= maxSuspects {
		return // the operator has enough keys to check
	}
	p.mu.suspects = append(p.mu.suspects, s)
	p.log.Warn().Uint32("shard", uint32(s.Key.Shard)).Str("key_hash", fmt.Sprintf("%016x", s.Key.Hash)).Strs("nodes", s.Nodes).Msg("poison request suspected")
}

// list returns the suspected keys, the oldest first.
func (p *poison) list() []poisonous {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.mu.suspects = slices.DeleteFunc(p.mu.suspects, func(s poisonous) bool { return now.Sub(s.at) > suspectedFor })
	return slices.Clone(p.mu.suspects)
}

// wrecked handles connections to another node that broke while requests ran on them. It finds out in the
// background whether the process of that node has ended, and reports the keys to the leader if so.
func (n *Node) wrecked(w proxy.Wreck) {
	at := time.Now()
	n.poison.mu.Lock()
	defer n.poison.mu.Unlock()
	if n.poison.ctx.Err() != nil {
		return // this node has stopped
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

// processBroke reports whether the process of a wreck has ended without being stopped on purpose: its
// address refuses connections, or another process responds there.
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

// leftByPlan reports whether the node leaves or has left, according to gossip.
func (n *Node) leftByPlan(node string) bool {
	return slices.ContainsFunc(n.gossip.Members(), func(m gossip.Member) bool {
		return m.ID == node && (m.Status == gossip.Leaving || m.Status == gossip.Left)
	})
}

// tellImplicated sends implications to the leader, and reports whether that succeeded.
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
		b, err := json.Marshal(all)
		if err != nil {
			return false
		}
		return n.client.Call(dialing, leader, control.Request{Kind: control.Implicated, Implicated: b}, nil) == nil
	}
}

// suspected returns the keys that the leader suspects; nil means no response.
func (n *Node) suspected(ctx context.Context) (all []poisonous) {
	switch leader := n.leader(); leader {
	case "":
		return nil
	case string(n.self):
		all = n.poison.list()
	default:
		asking, cancel := context.WithTimeout(ctx, viewTimeout)
		defer cancel()
		if err := n.client.Call(asking, leader, control.Request{Kind: control.Suspects}, &all); err != nil {
			n.log.Debug().Err(err).Msg("leader's suspects not available")
			return nil
		}
	}
	if all == nil {
		all = []poisonous{}
	}
	return all
}

// quarantines reports whether policy p contains a quarantine of a key.
func quarantines(p *ack.Policy, shard shardmap.Shard, hash uint64) bool {
	for m := range p.Quarantined {
		if m.Shard == shard && m.Hash == hash {
			return true
		}
	}
	return false
}
