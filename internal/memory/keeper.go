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
	// A release must be expected to return at least this many bytes, and at least 1/part of the
	// live memory. Otherwise it is not worth its cost: a collection reads all live memory.
	least = 8 << 20
	part  = 4
)

// Use is the memory usage of a process, in bytes.
type Use struct {
	Live uint64 // live memory at the end of the last collection
	Held uint64 // heap memory that has not been returned to the system
}

// spare returns how much memory a release might return to the system.
func (u Use) spare() uint64 { return u.Held - min(u.Live, u.Held) }

// Keeper decides when to return memory to the system. Only one goroutine may use it.
type Keeper struct {
	at, by time.Duration // time of the last check, and the CPU time used by then
	rested int           // number of successive idle checks
	after  time.Duration // no release before this time
	bound  uint64        // unused memory that the last release could not return, such as partly used pages
}

// NewKeeper returns a Keeper. used is the CPU time that the process has used until now.
func NewKeeper(now, used time.Duration) *Keeper { return &Keeper{at: now, by: used} }

// Look reports whether memory should be released now. After a release, the caller must call
// Kept. Look must be called about every two seconds, with the CPU time used so far.
func (k *Keeper) Look(now, used time.Duration, u Use) bool {
	passed, did := now-k.at, used-k.by
	if passed < look/2 {
		return false // the last check was late
	}
	k.at, k.by, k.bound = now, used, min(k.bound, u.spare())
	if k.rested++; did*100 > passed*little {
		k.rested = 0
	}
	return k.rested >= calm && now >= k.after && u.spare() >= k.bound+max(least, u.Live/part)
}

// Kept records the memory usage after a release.
func (k *Keeper) Kept(now time.Duration, u Use) { k.after, k.bound = now+pause, u.spare() }
