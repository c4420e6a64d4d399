package crashdetect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/node/control"
	"shardway/peer"
	"shardway/proxy/poison"
)

const (
	// poisonWindow is the longest time between the ends of two nodes for which a key that had requests
	// at both becomes suspected.
	poisonWindow = time.Minute
	// suspectedFor is how long /status shows a suspected key.
	suspectedFor = time.Hour
	// maxSuspects is the largest number of suspected keys.
	maxSuspects = 64
	// maxReports is the maximum number of reports that a node sends to the leader.
	maxReports = 64
	// maxStoredReports is the maximum number of reports that the leader stores.
	maxStoredReports = 1024
	// reportTimeout bounds the attempts to send a report to the leader. The leader's process may be the one that
	// exited, so a new leader may have to be elected first.
	reportTimeout = 20 * time.Second
	// reportPause is the pause between two attempts.
	reportPause = 200 * time.Millisecond
	// leaderTimeout bounds a request for the leader's suspects.
	leaderTimeout = 250 * time.Millisecond
)

// CrashReport lists the keys of the requests that a node had forwarded to a process when that process exited. A
// node sends the leader its reports of the last poisonWindow.
type CrashReport struct {
	Node  string              `json:"node"` // node and boot of the process
	Boot  uint64              `json:"boot"`
	Keys  []poison.Implicated `json:"keys"`
	AgoMS int64               `json:"ago_ms"` // time since the end of the process, when the report is sent
	At    time.Time           `json:"-"`      // when the process ended, by the clock of this node
}

// Suspect is a key that had requests at two nodes when their processes exited.
type Suspect struct {
	Key         poison.Implicated `json:"key"`
	Nodes       []string          `json:"nodes"` // in the order in which they ended
	suspectedAt time.Time
}

// endedProcess identifies a process that has exited.
type endedProcess struct {
	node string
	boot uint64
}

// reportID identifies the report of one node about one process.
type reportID struct {
	process  endedProcess
	reporter string
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
	options PoisonOptions

	ctx    context.Context // of Start
	checks sync.WaitGroup  // checks in the background

	mu struct {
		sync.Mutex
		ownReports []CrashReport            // reports of this node
		reports    map[reportID]CrashReport // on the leader: reports of all nodes
		suspects   []Suspect                // on the leader: suspected keys, oldest first
	}
}

// NewPoisonDetector returns a PoisonDetector.
func NewPoisonDetector(options PoisonOptions) *PoisonDetector {
	return &PoisonDetector{options: options}
}

// Start must be called before ConnsBroken. Background checks end with ctx.
func (p *PoisonDetector) Start(ctx context.Context) { p.ctx = ctx }

// Wait waits for the background checks. The context of Start must have ended.
func (p *PoisonDetector) Wait() { p.checks.Wait() }

// addOwnReport adds a report of this node, and returns all of the last poisonWindow.
func (p *PoisonDetector) addOwnReport(report CrashReport) []CrashReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	recent := slices.DeleteFunc(append(p.mu.ownReports, report), func(r CrashReport) bool { return now.Sub(r.At) > poisonWindow })
	p.mu.ownReports = recent[max(len(recent)-maxReports, 0):] // the newest ones
	return slices.Clone(p.mu.ownReports)
}

// Record stores the reports of a node, and updates the suspected keys.
func (p *PoisonDetector) Record(reporter string, reports []CrashReport) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(p.mu.reports, func(_ reportID, report CrashReport) bool { return now.Sub(report.At) > 2*poisonWindow })
	for _, report := range reports[:min(len(reports), maxReports)] {
		p.storeReportLocked(now, reporter, report)
	}
	p.updateSuspectsLocked(now)
}

// storeReportLocked stores one report of a node, unless it is invalid or maxStoredReports are already stored. mu
// must be held.
func (p *PoisonDetector) storeReportLocked(now time.Time, reporter string, report CrashReport) {
	isInvalid := report.AgoMS < 0 || report.AgoMS > poisonWindow.Milliseconds()
	if isInvalid || len(p.mu.reports) >= maxStoredReports {
		return
	}
	if tooMany := poison.MaxImplicated + 1; len(report.Keys) > tooMany {
		report.Keys = report.Keys[:tooMany] // further keys make no difference, see reportsByKeyLocked
	}
	report.At = now.Add(-time.Duration(report.AgoMS) * time.Millisecond)
	if p.mu.reports == nil {
		p.mu.reports = map[reportID]CrashReport{}
	}
	p.mu.reports[reportID{endedProcess{report.Node, report.Boot}, reporter}] = report
}

// updateSuspectsLocked searches for keys that had requests at two nodes whose processes ended within
// poisonWindow. mu must be held.
func (p *PoisonDetector) updateSuspectsLocked(now time.Time) {
	for key, reports := range p.reportsByKeyLocked() {
		slices.SortFunc(reports, func(a, b CrashReport) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Node, b.Node)) })
		for i := range reports[1:] {
			earlier, later := reports[i], reports[i+1]
			if earlier.Node != later.Node && later.At.Sub(earlier.At) <= poisonWindow {
				p.addSuspectLocked(Suspect{Key: key, Nodes: []string{earlier.Node, later.Node}, suspectedAt: now})
				break
			}
		}
	}
}

// reportsByKeyLocked returns the reports of each key, one for each process. It omits processes at which more
// than MaxImplicated keys had requests, counted over all reporting nodes: then none of these keys is
// suspicious. mu must be held.
func (p *PoisonDetector) reportsByKeyLocked() map[poison.Implicated][]CrashReport {
	reportsOfProcess := map[endedProcess]map[poison.Implicated]CrashReport{}
	for id, report := range p.mu.reports {
		if reportsOfProcess[id.process] == nil {
			reportsOfProcess[id.process] = map[poison.Implicated]CrashReport{}
		}
		for _, key := range report.Keys {
			reportsOfProcess[id.process][key] = report
		}
	}
	reportsOfKey := map[poison.Implicated][]CrashReport{}
	for _, reports := range reportsOfProcess {
		if len(reports) > poison.MaxImplicated {
			continue
		}
		for key, report := range reports {
			reportsOfKey[key] = append(reportsOfKey[key], report)
		}
	}
	return reportsOfKey
}

// addSuspectLocked adds a suspected key, and logs it if it is new. mu must be held.
func (p *PoisonDetector) addSuspectLocked(s Suspect) {
	if i := slices.IndexFunc(p.mu.suspects, func(o Suspect) bool { return o.Key == s.Key }); i >= 0 {
		p.mu.suspects[i] = s
		return
	}
	if len(p.mu.suspects) >= maxSuspects {
		return // the operator has enough keys to check
	}
	p.mu.suspects = append(p.mu.suspects, s)
	p.options.Log.Warn().Uint32("shard", uint32(s.Key.Shard)).Str("key_hash", fmt.Sprintf("%016x", s.Key.Hash)).Strs("nodes", s.Nodes).Msg("poison request suspected")
}

// Suspects returns the suspected keys, the oldest first.
func (p *PoisonDetector) Suspects() []Suspect {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.mu.suspects = slices.DeleteFunc(p.mu.suspects, func(s Suspect) bool { return now.Sub(s.suspectedAt) > suspectedFor })
	return slices.Clone(p.mu.suspects)
}

// Len returns the number of stored crash reports of other nodes.
func (p *PoisonDetector) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.reports)
}

// ConnsBroken handles connections to another node that broke while requests ran on them. It checks in the
// background whether the process of that node has exited. If so, it reports the keys to the leader.
func (p *PoisonDetector) ConnsBroken(crash poison.Crash) {
	brokenAt := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return // this node has stopped
	}
	p.checks.Go(func() {
		ctx, cancel := context.WithTimeout(p.ctx, reportTimeout)
		defer cancel()
		if !p.HasCrashed(ctx, crash) {
			return
		}
		reports := p.addOwnReport(CrashReport{Node: crash.Node, Boot: crash.Boot, Keys: crash.Keys, At: brokenAt})
		for !p.Report(ctx, reports) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(reportPause):
			}
		}
	})
}

// HasCrashed reports whether the process of a suspected crash exited without being stopped on purpose: its address
// refuses connections, or a different process responds there. It blocks until the result is known or ctx ends.
func (p *PoisonDetector) HasCrashed(ctx context.Context, crash poison.Crash) bool {
	for pause := 4 * redialPause; ; pause = min(2*pause, time.Second) {
		boot, err := p.dialBoot(ctx, crash.Node)
		if p.options.StoppedOnPurpose(crash.Node) {
			return false
		}
		if err == nil {
			return boot != crash.Boot
		}
		if peer.IsRefused(err) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// dialBoot returns the boot of the process that responds at the address of a node.
func (p *PoisonDetector) dialBoot(ctx context.Context, node string) (boot uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := p.options.Port.Dial(ctx, node, peer.Control)
	if err != nil {
		return 0, err
	}
	boot = c.Boot()
	_ = c.Close()
	return boot, nil
}

// Report sends crash reports to the leader, and reports whether that succeeded. It sets their AgoMS. It
// blocks for up to 1 s.
func (p *PoisonDetector) Report(ctx context.Context, reports []CrashReport) bool {
	now := time.Now()
	for i := range reports {
		reports[i].AgoMS = now.Sub(reports[i].At).Milliseconds()
	}
	switch leader := p.options.Leader(); leader {
	case "":
		return false
	case p.options.Self:
		p.Record(p.options.Self, reports)
		return true
	default:
		encoded, err := json.Marshal(reports)
		if err != nil {
			return false
		}
		callCtx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return p.options.Client.Call(callCtx, leader, control.Request{Kind: control.Implicated, Implicated: encoded}, nil) == nil
	}
}

// SuspectsOfLeader returns the keys that the leader suspects, or nil if the leader does not respond. It blocks
// until the leader responds or ctx ends, for up to 250 ms.
func (p *PoisonDetector) SuspectsOfLeader(ctx context.Context) (all []Suspect) {
	switch leader := p.options.Leader(); leader {
	case "":
		return nil
	case p.options.Self:
		all = p.Suspects()
	default:
		callCtx, cancel := context.WithTimeout(ctx, leaderTimeout)
		defer cancel()
		if err := p.options.Client.Call(callCtx, leader, control.Request{Kind: control.Suspects}, &all); err != nil {
			p.options.Log.Debug().Err(err).Msg("leader's suspects not available")
			return nil
		}
	}
	if all == nil {
		all = []Suspect{}
	}
	return all
}
