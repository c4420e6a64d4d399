package disk

import "time"

// AppAllowance is the longest time for which a process of the node has allowed its app to write
// while out of contact with the node.
type AppAllowance struct {
	// Boot is the boot number of that process. Zero means that no process has stored
	// anything.
	Boot uint64
	// Alive is the time from the hook alive, Owned the one from a response to GET
	// /v1/owned. Zero means never. Both are whole milliseconds.
	Alive, Owned time.Duration
}

// allowance is the content of allowance.json.
type allowance struct {
	Format  int    `json:"format"`
	Boot    uint64 `json:"boot"`
	AliveMS int64  `json:"alive_ms"`
	OwnedMS int64  `json:"owned_ms"`
}

const allowanceFile = "allowance.json"

// AppAllowance returns the value that StoreAppAllowance stored last, or the zero value.
func (d *Dir) AppAllowance() (AppAllowance, error) {
	var stored allowance
	_, err := loadFile(d.backend, allowanceFile, &stored)
	return AppAllowance{Boot: stored.Boot, Alive: time.Duration(stored.AliveMS) * time.Millisecond, Owned: time.Duration(stored.OwnedMS) * time.Millisecond}, err
}

// StoreAppAllowance durably stores an allowance. Calls must not overlap. The call waits for the
// disk, but does not block other methods of d.
func (d *Dir) StoreAppAllowance(value AppAllowance) error {
	return d.saveOutsideLock(allowanceFile, allowance{Format: format, Boot: value.Boot, AliveMS: value.Alive.Milliseconds(), OwnedMS: value.Owned.Milliseconds()})
}
