package disk

import (
	"errors"
	"fmt"
	"slices"
)

// errTooManyInstances reports more app instances than a node can have.
var errTooManyInstances = errors.New("disk: too many app instances")

// upstreams is the content of upstreams.json: the address of each number of an app instance.
type upstreams struct {
	Format int `json:"format"`
	// Numbers contains the address of each number, from 1 on.
	Numbers []string `json:"numbers"`
	// Removed contains the numbers whose addresses are no longer configured, the oldest first.
	Removed []int `json:"removed,omitempty"`
}

const upstreamsFile = "upstreams.json"

// NumberUpstreams returns the configured addresses by the numbers of their app instances, and stores
// the numbers durably. An address keeps its number as long as it is configured, whatever its position:
// shards are assigned to numbers, so another address would get them without another ownership epoch.
// A new address gets a number that no address has had. If all limit numbers are used, it gets the
// number that has been unused for longest. The result contains an empty address for a number that is
// not used now.
//
// The only address of a node that never had several instances has number 1, also if it changes.
func (d *Dir) NumberUpstreams(addresses []string, limit int) ([]string, error) {
	if len(addresses) > limit {
		return nil, fmt.Errorf("%w: %d, want at most %d", errTooManyInstances, len(addresses), limit)
	}
	var stored upstreams
	if _, err := loadFile(d.backend, upstreamsFile, &stored); err != nil {
		return nil, err
	}
	if len(addresses) == 0 {
		return nil, nil
	}
	next := stored.renumber(addresses, limit)
	if !slices.Equal(next.Numbers, stored.Numbers) || !slices.Equal(next.Removed, stored.Removed) {
		if err := d.saveOutsideLock(upstreamsFile, next); err != nil {
			return nil, err
		}
	}
	numbered := slices.Clone(next.Numbers)
	for _, index := range next.Removed {
		numbered[index] = ""
	}
	return numbered, nil
}

// renumber returns the numbers of the addresses after the stored ones.
func (u upstreams) renumber(addresses []string, limit int) upstreams {
	next := upstreams{Format: format, Numbers: slices.Clone(u.Numbers)}
	if len(u.Numbers) <= 1 && len(addresses) == 1 {
		next.Numbers = slices.Clone(addresses)
		return next
	}
	for _, index := range u.Removed {
		if !slices.Contains(addresses, u.Numbers[index]) {
			next.Removed = append(next.Removed, index)
		}
	}
	for index, address := range u.Numbers {
		if !slices.Contains(addresses, address) && !slices.Contains(next.Removed, index) {
			next.Removed = append(next.Removed, index)
		}
	}
	for _, address := range addresses {
		switch {
		case slices.Contains(next.Numbers, address):
		case len(next.Numbers) < limit:
			next.Numbers = append(next.Numbers, address)
		default:
			next.Numbers[next.Removed[0]] = address
			next.Removed = next.Removed[1:]
		}
	}
	return next
}
