package disk

import "time"

// AppAllowance is the longest time for which a process of the node has let its app write
// without hearing from the node again.
type AppAllowance struct {
	// Boot is the boot of that process; 0 means that no process has stored anything.
	Boot uint64
	// Alive was told by the hook alive, Owned in a response to GET /v1/owned; 0 means never.
	// Both are whole milliseconds.
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

// AppAllowance returns what KeepAppAllowance stored last, zero if nothing.
func (d *Dir) AppAllowance() (AppAllowance, error) {
	var a allowance
	_, err := load(d.b, allowanceFile, &a)
	return AppAllowance{Boot: a.Boot, Alive: time.Duration(a.AliveMS) * time.Millisecond, Owned: time.Duration(a.OwnedMS) * time.Millisecond}, err
}

// KeepAppAllowance stores an allowance, durably. The caller makes one call at a time. It
// waits for the disk, and other methods of d do not wait for it.
func (d *Dir) KeepAppAllowance(a AppAllowance) error {
	return d.keep(allowanceFile, allowance{Format: format, Boot: a.Boot, AliveMS: a.Alive.Milliseconds(), OwnedMS: a.Owned.Milliseconds()})
}
