package ack_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
)

// The programs of this play know MinFormatVersion, as the old one does, or the next one as well.
const (
	oldProgram    = ack.MinFormatVersion
	newProgram    = ack.MinFormatVersion + 1
	finalizeAfter = time.Hour
)

// levelPlay is one schedule of processes that restart with the old or the new program, of
// leader changes, and of late reports and entries.
type levelPlay struct {
	// plant is what the leader's side does wrong: see levelPlants.
	plant   string
	rng     *rand.Rand
	now     time.Duration
	term    uint64
	barrier bool // of this term is applied
	levels  *leader.FormatUpgrade
	state   *ack.State // the leader's
	// level is the one in force, which state has one below: see apply.
	level   ack.FormatVersion
	servers []*levelServer
	config  []string
	pending []playedEntry         // in the leader's log, not applied
	limbo   [][]byte              // submitted; may enter the log terms later
	words   []leader.FormatReport // on their way
	failure string
}

type playedEntry struct {
	term uint64
	data []byte
}

// levelServer is a server with its current process, and global knowledge about it.
type levelServer struct {
	name         string
	up, silent   bool
	boot, toldIn uint64
	program      ack.FormatVersion
	disk         ack.FormatVersion // the level that its log has
	toldAt       time.Duration     // by the current process, to the leader of toldIn
}

// levelPlants are mutants of the caller of Levels.
func levelPlants() []string {
	return []string{"one Levels for all terms", "a server is added while a raise is under way", "a server is added before the barrier"}
}

// playLevelSchedule runs one schedule. It returns the failure, "" if there is none, and whether the
// level was raised before the end.
func playLevelSchedule(seed uint64, plant string) (failure string, raised bool) {
	p := &levelPlay{plant: plant, rng: rand.New(rand.NewPCG(seed, 7)), term: 1, state: ack.StateAtLevel(oldProgram - 1), level: oldProgram}
	p.levels = leader.NewFormatUpgrade(p.term, finalizeAfter)
	for i := range 2 + p.rng.IntN(3) {
		x := &levelServer{name: fmt.Sprintf("%c/1", 'a'+i), disk: oldProgram}
		p.servers = append(p.servers, x)
		p.config = append(p.config, x.name)
		p.start(x)
	}
	fresh := p.rng.IntN(3) > 0 // in most schedules the new program is everywhere soon
	for range 30 + p.rng.IntN(120) {
		p.step(fresh)
		if p.failure != "" {
			return p.failure, p.level > oldProgram
		}
	}
	raised = p.level > oldProgram
	p.settle()
	return p.failure, raised
}

func (p *levelPlay) fail(format string, args ...any) {
	if p.failure == "" {
		p.failure = fmt.Sprintf(format, args...)
	}
}

func (p *levelPlay) step(fresh bool) {
	x := p.servers[p.rng.IntN(len(p.servers))]
	switch p.rng.IntN(24) {
	case 0, 1, 12, 13:
		p.now += time.Duration(p.rng.Int64N(int64(finalizeAfter)))
	case 2:
		p.now += time.Duration(p.rng.Int64N(int64(time.Minute)))
	case 3:
		x.program = []ack.FormatVersion{oldProgram, newProgram}[p.rng.IntN(2)]
		if fresh {
			x.program = newProgram
		}
		p.start(x)
	case 4:
		x.up = p.rng.IntN(3) > 0 && x.disk <= x.program
	case 5:
		x.silent = p.rng.IntN(4) == 0
	case 6:
		if p.rng.IntN(3) == 0 {
			p.elect()
		}
	case 7:
		p.applyAll()
		p.barrier = true
	case 8:
		p.add()
	case 9:
		p.remove(x)
	case 10:
		p.deliverLate()
	case 11:
		p.apply()
	default:
		p.leaderStep()
	}
}

// start starts a process, unless its program does not know the level on the disk.
func (p *levelPlay) start(x *levelServer) {
	x.program = max(x.program, oldProgram)
	x.boot++
	x.toldIn = 0
	x.up = x.disk <= x.program
}

func (p *levelPlay) elect() {
	p.term, p.barrier = p.term+1, false
	if p.rng.IntN(3) == 0 {
		p.pending = nil // the new leader never had them
	}
	if p.plant != "one Levels for all terms" {
		p.levels = leader.NewFormatUpgrade(p.term, finalizeAfter)
	}
}

func (p *levelPlay) memberViews() (all []leader.MemberView) {
	for _, x := range p.servers {
		v := leader.MemberView{Heartbeat: ack.Heartbeat{Server: x.name, Boot: x.boot, Nonce: x.boot}, Silent: !x.up || x.silent}
		all = append(all, v)
	}
	return all
}

// deliverLate delivers a delayed report or entry.
func (p *levelPlay) deliverLate() {
	if len(p.words) > 0 {
		p.receiveReport(p.words[0])
		p.words = p.words[1:]
	}
	if len(p.limbo) > 0 && p.rng.IntN(2) == 0 {
		p.pending = append(p.pending, playedEntry{p.term, p.limbo[0]})
		p.limbo = p.limbo[1:]
	}
}

func (p *levelPlay) receiveReport(w leader.FormatReport) {
	p.levels.RecordReport(w)
	for _, x := range p.servers {
		if x.name == w.Server && x.boot == w.Boot && w.Term == p.term && x.toldIn != p.term {
			x.toldIn, x.toldAt = p.term, p.now
		}
	}
}

// leaderStep is one iteration of the leader: ask, update, raise.
func (p *levelPlay) leaderStep() {
	heard := p.memberViews()
	for _, x := range p.servers {
		if x.up && slices.Contains(p.config, x.name) && p.levels.NeedsReport(x.name, heard) {
			w := leader.FormatReport{Term: p.term, Server: x.name, Boot: x.boot, Nonce: x.boot, MaxVersion: x.program}
			if p.rng.IntN(4) == 0 {
				p.words = append(p.words, w)
				continue
			}
			p.receiveReport(w)
		}
	}
	view := p.levels.Update(p.now, p.level, p.config, heard)
	atOnce := p.rng.IntN(10) == 0
	entry := p.levels.Raise(view, atOnce)
	if entry == nil || !p.barrier || p.raising() {
		return
	}
	p.checkRaise(atOnce)
	if p.rng.IntN(4) == 0 {
		p.limbo = append(p.limbo, entry)
		return
	}
	p.pending = append(p.pending, playedEntry{p.term, entry})
}

// raising reports whether a raise of this leader is being submitted.
func (p *levelPlay) raising() bool { return len(p.pending) > 0 || len(p.limbo) > 0 }

// checkRaise checks the decision of a leader to raise the level against global knowledge.
func (p *levelPlay) checkRaise(atOnce bool) {
	for _, x := range p.servers {
		switch {
		case !slices.Contains(p.config, x.name):
		case !x.up || x.silent:
			p.fail("raised while %s is silent", x.name)
		case x.program < newProgram:
			p.fail("raised above what %s knows", x.name)
		case x.toldIn != p.term:
			p.fail("raised though %s has not told the leader of term %d", x.name, p.term)
		case !atOnce && p.now-x.toldAt < finalizeAfter:
			p.fail("raised %v after %s told that it knows it, want %v", p.now-x.toldAt, x.name, finalizeAfter)
		}
	}
}

func (p *levelPlay) applyAll() {
	for len(p.pending) > 0 {
		p.apply()
	}
}

// apply applies an entry as State does. This program knows one level, so levels in the state
// are lower by one than here.
func (p *levelPlay) apply() {
	if len(p.pending) == 0 {
		return
	}
	e := p.pending[0]
	p.pending = p.pending[1:]
	was := p.level
	p.state, p.level = after(p.state, e)
	if r, ok := ack.LevelEntryIn(e.data); ok && p.level > was && r.Term != e.term {
		p.fail("raised in term %d by what was decided in term %d", e.term, r.Term)
	}
	for _, x := range p.servers {
		if !x.up {
			continue
		}
		if x.disk = p.level; x.disk > x.program {
			x.up = false // it stops at an unsupported level
		}
	}
}

func after(s *ack.State, e playedEntry) (*ack.State, ack.FormatVersion) {
	if raise, ok := ack.LevelEntryIn(e.data); ok {
		raise.Version--
		s = s.ApplyLevel(e.term, raise)
	}
	return s, s.FormatVersion() + 1
}

// add adds a new server, once it has reported its level.
func (p *levelPlay) add() {
	if len(p.config) > 5 || !p.barrier && p.plant != "a server is added before the barrier" || p.raising() && p.barrier && p.plant != "a server is added while a raise is under way" {
		return
	}
	x := &levelServer{name: fmt.Sprintf("%c/1", 'a'+len(p.servers)), program: []ack.FormatVersion{oldProgram, newProgram}[p.rng.IntN(2)], disk: oldProgram}
	if !p.levels.Admits(p.level, x.program) {
		return
	}
	truth, level := p.state, p.level
	for _, e := range p.pending {
		truth, level = after(truth, e)
	}
	if x.program < level {
		p.fail("added at level %d: %s, which knows level %d", level, x.name, x.program)
	}
	p.servers, p.config = append(p.servers, x), append(p.config, x.name)
	p.start(x)
	for _, entry := range p.limbo { // a raise of this term may enter the log after it
		if r, ok := ack.LevelEntryIn(entry); ok && r.Term == p.term && x.program < newProgram {
			p.fail("added while level %d was being raised: %s, which knows level %d", newProgram, x.name, x.program)
		}
	}
}

// remove removes a server that is down.
func (p *levelPlay) remove(x *levelServer) {
	if !x.up && len(p.config) > 2 {
		p.config = slices.DeleteFunc(p.config, func(s string) bool { return s == x.name })
	}
}

// settle ends all faults: the level is raised then.
func (p *levelPlay) settle() {
	p.applyAll()
	p.limbo, p.words, p.barrier = nil, nil, true
	for _, x := range p.servers {
		x.silent, x.program = false, newProgram
		p.start(x)
	}
	for range 20 {
		p.leaderStep()
		p.now += finalizeAfter
		p.deliverLate()
		p.applyAll()
	}
	if p.level != newProgram && p.failure == "" {
		p.fail("not raised though all have known it for long: %+v", p.levels)
	}
}

// A level is raised only when every server knows it, despite restarts and lost or late messages.
func TestLevelIsRaisedOnlyWhenAllKnowIt(t *testing.T) {
	raisedIn := 0
	for seed := range uint64(4000) {
		failure, raised := playLevelSchedule(seed+1, "")
		if failure != "" {
			t.Fatalf("schedule %d: %s", seed+1, failure)
		}
		if raised {
			raisedIn++
		}
	}
	if raisedIn < 100 {
		t.Errorf("raised in the midst of trouble in %d schedules of 4000: they show little", raisedIn)
	}
	t.Logf("raised in the midst of trouble in %d of 4000 schedules", raisedIn)
}
