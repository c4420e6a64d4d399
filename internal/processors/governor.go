package processors

import "time"

const (
	// busy is from which share of the processors' time on there are too few, in percent:
	// what comes then waits for its turn.
	busy = 95
	// spare is up to which share half of them are enough. A request costs less with
	// fewer, so half of them will be less busy than that.
	spare = 88
	// look is the approximate interval between two measurements. Next to other busy
	// processes, the process gets CPU time in bursts of tens of milliseconds.
	look = 100 * time.Millisecond
	// calm is for how long half of them must have been enough before they are given
	// back. Each change stops the whole process for a moment.
	calm = 5 * time.Second
	// behind is how late a look may be. A process whose look is later shares the machine
	// with others and is given less than it could use: more threads get it a larger share.
	behind = look / 2
)

// Governor decides how many processors a process is to use, by what it uses. Its caller
// is one goroutine.
type Governor struct {
	most, now int

	at, by time.Duration // the last judgement: when, and what was used by then
	since  time.Duration // since when half of them have been enough
}

// NewGovernor returns the Governor of a process that may use most processors, one at
// least, and uses all of them now: who starts has much to do.
func NewGovernor(most int, now, used time.Duration) *Governor {
	return &Governor{most: most, now: most, at: now, by: used, since: now}
}

// Look returns how many processors to use. It is due every 100 ms; used is the processor
// time of the process so far.
func (g *Governor) Look(now, used time.Duration) int {
	passed, did := now-g.at, used-g.by
	if passed < look/2 {
		return g.now // the last one was late
	}
	g.at, g.by = now, used
	switch {
	case passed >= look+behind || did*100 >= passed*time.Duration(busy*g.now):
		g.now, g.since = g.most, now
	case g.now == 1 || did*100 > passed*time.Duration(spare*g.half()):
		g.since = now
	case now-g.since >= calm:
		g.now, g.since = g.half(), now
	}
	return g.now
}

// Resize says that the process may use another number of processors, and uses all of them.
func (g *Governor) Resize(most int) { g.most, g.now = most, most }

// half is what is left of them when half are given back.
func (g *Governor) half() int { return (g.now + 1) / 2 }
