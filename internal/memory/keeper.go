package memory

import "time"

const (
	// look is the approximate interval between two checks of a Keeper.
	look = 2 * time.Second
	// little is the share of one processor, in percent, up to which the process counts as idle.
	little = 10
	// calm is the number of successive idle checks before memory is released. A process that becomes
	// busy again allocates the memory again, which takes some microseconds for each 64 KiB.
	calm = 2
	// pause is the minimum interval between two releases, because an idle process works a little.
	pause = 10 * time.Second
	// least is how many bytes are worth a collection, which reads all that is in use; and
	// part which part of that at least.
	least = 8 << 20
	part  = 4
)

// Use is what a process has of memory, in bytes.
type Use struct {
	Live uint64 // in use, when the collector looked last
	Held uint64 // of the heap, and not given back to the system
}

// spare is what may be given back.
func (u Use) spare() uint64 { return u.Held - min(u.Live, u.Held) }

// Keeper decides when memory is to be given back. Its caller is one goroutine.
type Keeper struct {
	at, by time.Duration // the last look: when, and what processor time was used by then
	rested int           // looks for which the process has rested
	after  time.Duration // nothing is given back before
	bound  uint64        // what was left over the last time, as far as it still is: it cannot be given back
}

// NewKeeper returns the Keeper of a process that has used so much processor time by now.
func NewKeeper(now, used time.Duration) *Keeper { return &Keeper{at: now, by: used} }

// Look reports whether memory is to be given back now; then Kept is to be told what became
// of it. It is due every two seconds.
func (k *Keeper) Look(now, used time.Duration, u Use) bool {
	passed, did := now-k.at, used-k.by
	if passed < look/2 {
		return false // the last one was late
	}
	k.at, k.by, k.bound = now, used, min(k.bound, u.spare())
	if k.rested++; did*100 > passed*little {
		k.rested = 0
	}
	return k.rested >= calm && now >= k.after && u.spare() >= k.bound+max(least, u.Live/part)
}

// Kept says what there is since memory was given back.
func (k *Keeper) Kept(now time.Duration, u Use) { k.after, k.bound = now+pause, u.spare() }
