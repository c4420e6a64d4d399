package memory

import "time"

const (
	// checkInterval is the approximate interval between two checks of a ReleasePolicy.
	checkInterval = 2 * time.Second
	// maxIdlePercent is the share of one processor, in percent, up to which the process is treated
	// as idle.
	maxIdlePercent = 10
	// idleChecks is the number of successive idle checks before memory is released. A process that becomes busy
	// again must reallocate the memory, which takes some microseconds for each 64 KiB.
	idleChecks = 2
	// minReleaseInterval is the minimum interval between two releases, because even an idle process allocates now and
	// then.
	minReleaseInterval = 10 * time.Second
	// A release must be expected to return at least this many bytes, and at least 1/part of the
	// live memory. Otherwise it is not worth its cost: a collection reads all live memory.
	minReleaseBytes    = 8 << 20
	minReleaseFraction = 4
)

// Usage is the memory usage of a process, in bytes.
type Usage struct {
	Live         uint64 // live memory at the end of the last collection
	HeapReserved uint64 // heap memory that has not been returned to the system
}

// unused returns how much memory a release might return to the system.
func (u Usage) unused() uint64 { return u.HeapReserved - min(u.Live, u.HeapReserved) }

// ReleasePolicy decides when to return memory to the system. Only one goroutine may use it. All times are
// durations since the start of the observation.
type ReleasePolicy struct {
	// Load of the process.
	checkedAt time.Duration // last check
	cpuTime   time.Duration // CPU time that the process had used by then
	idleCount int           // number of successive idle checks

	// Result of the last release.
	nextReleaseAt time.Duration // earliest time of the next release
	// retainedBytes is the unused memory that the last release could not return.
	retainedBytes uint64
}

// NewReleasePolicy returns a ReleasePolicy. used is the CPU time that the process has used until now.
func NewReleasePolicy(now, used time.Duration) *ReleasePolicy {
	return &ReleasePolicy{checkedAt: now, cpuTime: used}
}

// ShouldRelease reports whether memory should be released now. After a release, the caller must call
// RecordRelease. ShouldRelease must be called about every two seconds, with the CPU time used so far.
func (p *ReleasePolicy) ShouldRelease(now, totalCPU time.Duration, usage Usage) bool {
	elapsed, cpuUsed := now-p.checkedAt, totalCPU-p.cpuTime
	if elapsed < checkInterval/2 {
		return false // the previous check was late
	}
	p.checkedAt, p.cpuTime = now, totalCPU
	p.retainedBytes = min(p.retainedBytes, usage.unused())
	if isIdle := cpuUsed*100 <= elapsed*maxIdlePercent; isIdle {
		p.idleCount++
	} else {
		p.idleCount = 0
	}
	return p.idleCount >= idleChecks && now >= p.nextReleaseAt && p.isWorthwhile(usage)
}

// isWorthwhile reports whether a release is expected to return enough memory.
func (p *ReleasePolicy) isWorthwhile(usage Usage) bool {
	minReleased := max(minReleaseBytes, usage.Live/minReleaseFraction)
	return usage.unused() >= p.retainedBytes+minReleased
}

// RecordRelease records that memory was just released. Memory that is unused even now cannot be returned, such as
// partly used pages, so later calls of ShouldRelease ignore it.
func (p *ReleasePolicy) RecordRelease(now time.Duration, usage Usage) {
	p.nextReleaseAt = now + minReleaseInterval
	p.retainedBytes = usage.unused()
}
