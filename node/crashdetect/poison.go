package crashdetect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/node/control"
	"shardway/peer"
	"shardway/proxy"
)

const (
	// poisonWindow is the longest time between the ends of two nodes for which a key that had requests
	// at both becomes suspected.
	poisonWindow = time.Minute
	// suspectedFor is how long /status shows a suspected key.
	suspectedFor = time.Hour
	// maxSuspects is the largest number of suspected keys.
	maxSuspects = 64
	// maxReports is the largest number of reports that a node sends to the leader.
	maxReports = 64
	// maxEnds is the largest number of reports that the leader stores.
	maxEnds = 1024
	// reportFor bounds the attempts to send a report to the leader. The leader may be the node
	// that has ended, so a new one may have to be elected first.
	reportFor = 20 * time.Second
	// leaderTimeout bounds a request for the suspects of the leader.
	leaderTimeout = 250 * time.Millisecond
	// reportPause is the pause between two attempts.
	reportPause = 200 * time.Millisecond
)

// CrashReport lists the keys of the requests that a node had forwarded to a process when that process
// ended. A node sends the leader its reports of the last poisonWindow.
type CrashReport struct {
	Node  string             `json:"node"`
	Boot  uint64             `json:"boot"`
	Keys  []proxy.Implicated `json:"keys"`
	AgoMS int64              `json:"ago_ms"`
	At    time.Time          `json:"-"` // when the process ended, by the clock of this node
}

// Suspect is a suspected key: it had requests at two nodes when they ended.
type Suspect struct {
	Key   proxy.Implicated `json:"key"`
	Nodes []string         `json:"nodes"` // in the order in which they ended
	at    time.Time
}

// processEnd identifies the end of a process, as reported by node from.
type processEnd struct {
	node string
	boot uint64
	from string
}

// PoisonOptions configures a PoisonDetector.
type PoisonOptions struct {
	Self   string
	Port   *peer.Port
	Client *control.Client
	// Leader returns the node that leads, or "".
	Leader func() string
	// StoppedOnPurpose reports whether a node leaves or has left the cluster.
	StoppedOnPurpose func(node string) bool
	Log              zerolog.Logger
}

// PoisonDetector detects keys whose requests may end processes. It contains the crash reports of this
// node's own clients and, if this node leads, those that other nodes have sent. Its methods may be called
// from any goroutine.
type PoisonDetector struct {
	o PoisonOptions

	ctx context.Context // of Start
	wg  sync.WaitGroup

	mu struct {
		sync.Mutex
		own      []CrashReport              // reports of this node
		ends     map[processEnd]CrashReport // on the leader: reports of all nodes
		suspects []Suspect                  // on the leader: suspected keys, oldest first
	}
}

// NewPoisonDetector returns a PoisonDetector.
func NewPoisonDetector(o PoisonOptions) *PoisonDetector { return &PoisonDetector{o: o} }

// Start must be called before ConnsBroken. Checks in the background end with ctx.
func (p *PoisonDetector) Start(ctx context.Context) { p.ctx = ctx }

// Wait returns after the last check in the background. The context of Start must have ended.
func (p *PoisonDetector) Wait() { p.wg.Wait() }

// addOwn adds a report of this node, and returns all of the last poisonWindow.
func (p *PoisonDetector) addOwn(i CrashReport) []CrashReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.mu.own = slices.DeleteFunc(append(p.mu.own, i), func(i CrashReport) bool { return now.Sub(i.At) > poisonWindow })
	p.mu.own = p.mu.own[max(len(p.mu.own)-maxReports, 0):]
	return slices.Clone(p.mu.own)
}

// Record stores the reports of a node, and updates the suspected keys.
func (p *PoisonDetector) Record(from string, all []CrashReport) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.mu.ends == nil {
		p.mu.ends = map[processEnd]CrashReport{}
	}
	for e, i := range p.mu.ends {
		if now.Sub(i.At) > 2*poisonWindow {
			delete(p.mu.ends, e)
		}
	}
	for _, i := range all[:min(len(all), maxReports)] {
		if len(p.mu.ends) >= maxEnds || i.AgoMS < 0 || i.AgoMS > poisonWindow.Milliseconds() {
			continue
		}
		if len(i.Keys) > proxy.MaxImplicated+1 {
			i.Keys = i.Keys[:proxy.MaxImplicated+1]
		}
		i.At = now.Add(-time.Duration(i.AgoMS) * time.Millisecond)
		p.mu.ends[processEnd{i.Node, i.Boot, from}] = i
	}
	p.updateSuspects(now)
}

// updateSuspects searches for keys that had requests at two nodes that have ended. mu must be held.
func (p *PoisonDetector) updateSuspects(now time.Time) {
	for key, seen := range p.implicated() {
		slices.SortFunc(seen, func(a, b CrashReport) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Node, b.Node)) })
		for i := range seen[1:] {
			if a, b := seen[i], seen[i+1]; a.Node != b.Node && b.At.Sub(a.At) <= poisonWindow {
				p.suspect(Suspect{Key: key, Nodes: []string{a.Node, b.Node}, at: now})
				break
			}
		}
	}
}

// implicated returns the reports of each key. It omits the ends of processes at which more than
// MaxImplicated keys had requests, counted over all reporting nodes. mu must be held.
func (p *PoisonDetector) implicated() map[proxy.Implicated][]CrashReport {
	type process struct {
		node string
		boot uint64
	}
	keys := map[process]map[proxy.Implicated]CrashReport{}
	for e, i := range p.mu.ends {
		of := process{e.node, e.boot}
		if keys[of] == nil {
			keys[of] = map[proxy.Implicated]CrashReport{}
		}
		for _, k := range i.Keys {
			keys[of][k] = i
		}
	}
	seen := map[proxy.Implicated][]CrashReport{}
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
func (p *PoisonDetector) suspect(s Suspect) {
	if i := slices.IndexFunc(p.mu.suspects, func(o Suspect) bool { return o.Key == s.Key }); i >= 0 {
		p.mu.suspects[i] = s
		return
	}
	if len(p.mu.suspects) >= maxSuspects {
		return // the operator has enough keys to check
	}
	p.mu.suspects = append(p.mu.suspects, s)
	p.o.Log.Warn().Uint32("shard", uint32(s.Key.Shard)).Str("key_hash", fmt.Sprintf("%016x", s.Key.Hash)).Strs("nodes", s.Nodes).Msg("poison request suspected")
}

// Suspects returns the suspected keys, the oldest first.
func (p *PoisonDetector) Suspects() []Suspect {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.mu.suspects = slices.DeleteFunc(p.mu.suspects, func(s Suspect) bool { return now.Sub(s.at) > suspectedFor })
	return slices.Clone(p.mu.suspects)
}

// Len returns the number of stored crash reports of other nodes.
func (p *PoisonDetector) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.ends)
}

// ConnsBroken handles connections to another node that broke while requests ran on them. It checks in the
// background whether the process of that node has ended. If so, it reports the keys to the leader.
func (p *PoisonDetector) ConnsBroken(w proxy.Crash) {
	at := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return // this node has stopped
	}
	p.wg.Go(func() {
		ctx, cancel := context.WithTimeout(p.ctx, reportFor)
		defer cancel()
		if !p.HasCrashed(ctx, w) {
			return
		}
		reports := p.addOwn(CrashReport{Node: w.Node, Boot: w.Boot, Keys: w.Keys, At: at})
		for !p.Report(ctx, reports) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(reportPause):
			}
		}
	})
}

// HasCrashed reports whether the process of a suspected crash has ended without being stopped on purpose: its
// address refuses connections, or another process responds there. It blocks until that is known or ctx
// ends.
func (p *PoisonDetector) HasCrashed(ctx context.Context, w proxy.Crash) bool {
	for pause := 4 * redialPause; ; pause = min(2*pause, time.Second) {
		dialing, cancel := context.WithTimeout(ctx, time.Second)
		c, err := p.o.Port.Dial(dialing, w.Node, peer.Control)
		cancel()
		switch {
		case p.o.StoppedOnPurpose(w.Node):
			return false
		case err == nil:
			boot := c.Boot()
			_ = c.Close()
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

// Report sends crash reports to the leader, and reports whether that succeeded. It sets their AgoMS. It
// blocks for up to 1 s.
func (p *PoisonDetector) Report(ctx context.Context, reports []CrashReport) bool {
	now := time.Now()
	for i := range reports {
		reports[i].AgoMS = now.Sub(reports[i].At).Milliseconds()
	}
	switch leader := p.o.Leader(); leader {
	case "":
		return false
	case p.o.Self:
		p.Record(p.o.Self, reports)
		return true
	default:
		dialing, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		b, err := json.Marshal(reports)
		if err != nil {
			return false
		}
		return p.o.Client.Call(dialing, leader, control.Request{Kind: control.Implicated, Implicated: b}, nil) == nil
	}
}

// SuspectsOfLeader returns the keys that the leader suspects; nil means no response. It blocks until the
// leader responds or ctx ends, for up to 250 ms.
func (p *PoisonDetector) SuspectsOfLeader(ctx context.Context) (all []Suspect) {
	switch leader := p.o.Leader(); leader {
	case "":
		return nil
	case p.o.Self:
		all = p.Suspects()
	default:
		callCtx, cancel := context.WithTimeout(ctx, leaderTimeout)
		defer cancel()
		if err := p.o.Client.Call(callCtx, leader, control.Request{Kind: control.Suspects}, &all); err != nil {
			p.o.Log.Debug().Err(err).Msg("leader's suspects not available")
			return nil
		}
	}
	if all == nil {
		all = []Suspect{}
	}
	return all
}
