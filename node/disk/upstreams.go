package disk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

var (
	// errTooManyInstances reports more app instances than a node can have.
	errTooManyInstances = errors.New("disk: too many app instances")
	// errNoFreeNumber reports a new app instance while each number has an address, or may still own
	// shards.
	errNoFreeNumber = errors.New("disk: no free number for a new app instance")
)

// upstreams is the content of upstreams.json: the address of each number of an app instance.
type upstreams struct {
	Format int `json:"format"`
	// Numbers contains the address of each number, from 1 on.
	Numbers []string `json:"numbers"`
	// Removed contains the numbers whose addresses are no longer configured, the oldest first.
	Removed []int `json:"removed,omitempty"`
	// Free has one bit for each removed number that no longer owns shards. Only such a number may get a new
	// address.
	Free uint32 `json:"free,omitempty"`
}

const upstreamsFile = "upstreams.json"

// NumberUpstreams returns the configured addresses by the numbers of their app instances, and stores the numbers
// durably. An address keeps its number as long as it is configured, regardless of its position: shards are assigned
// to numbers, so a different address would get them without a new ownership epoch. A new address gets a number that
// no address has had. If all limit numbers are used, it gets the free number that has been unused for longest.
// Without a free number, NumberUpstreams returns an error. The result contains an empty address for a number that
// is not used now.
//
// If a node never had several instances, its only address has number 1, even after the address changes. replaced is
// the previous address in this case, otherwise it is empty. The name of a service and a space may precede an address.
// Then only an address of the same service takes the number over.
func (d *Dir) NumberUpstreams(addresses []string, limit int) (numbered []string, replaced string, err error) {
	if len(addresses) > limit {
		return nil, "", fmt.Errorf("%w: %d, want at most %d", errTooManyInstances, len(addresses), limit)
	}
	var stored upstreams
	if _, err = loadFile(d.backend, upstreamsFile, &stored); err != nil {
		return nil, "", err
	}
	if len(addresses) == 0 {
		return nil, "", nil
	}
	next, err := stored.renumber(addresses, limit)
	if err != nil {
		return nil, "", err
	}
	if len(stored.Numbers) == 1 && next.Numbers[0] != stored.Numbers[0] && len(next.Numbers) == 1 {
		replaced = stored.Numbers[0]
	}
	if !slices.Equal(next.Numbers, stored.Numbers) || !slices.Equal(next.Removed, stored.Removed) || next.Free != stored.Free {
		if err = d.saveOutsideLock(upstreamsFile, next); err != nil {
			return nil, "", err
		}
	}
	numbered = slices.Clone(next.Numbers)
	for _, index := range next.Removed {
		numbered[index] = ""
	}
	return numbered, replaced, nil
}

// FreeUpstreams returns the value that StoreFreeUpstreams stored last, without the numbers that
// NumberUpstreams has used since.
func (d *Dir) FreeUpstreams() (uint32, error) {
	var stored upstreams
	_, err := loadFile(d.backend, upstreamsFile, &stored)
	return stored.Free, err
}

// StoreFreeUpstreams durably stores which removed app instances no longer own shards, with one bit for each. Their
// numbers may get new addresses. Calls must not overlap with each other or with NumberUpstreams.
func (d *Dir) StoreFreeUpstreams(free uint32) error {
	stored := upstreams{Format: format}
	if _, err := loadFile(d.backend, upstreamsFile, &stored); err != nil {
		return err
	}
	stored.Free = free
	return d.saveOutsideLock(upstreamsFile, stored)
}

// serviceOf returns the name of the service that precedes an address, or an empty text.
func serviceOf(address string) string {
	name, _, hasService := strings.Cut(address, " ")
	if !hasService {
		return ""
	}
	return name
}

// renumber returns the numbers of the addresses after the stored ones.
func (u upstreams) renumber(addresses []string, limit int) (upstreams, error) {
	next := upstreams{Format: format, Numbers: slices.Clone(u.Numbers)}
	hasOtherService := len(u.Numbers) == 1 && len(addresses) == 1 && serviceOf(u.Numbers[0]) != serviceOf(addresses[0])
	if len(u.Numbers) <= 1 && len(addresses) == 1 && !hasOtherService {
		next.Numbers = slices.Clone(addresses)
		return next, nil
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
			free := slices.IndexFunc(next.Removed, u.isFree)
			if free < 0 {
				return upstreams{}, fmt.Errorf("%w: %q: all %d numbers are used: start the node without this address, and add it after the shards of removed app instances have moved", errNoFreeNumber, address, limit)
			}
			next.Numbers[next.Removed[free]] = address
			next.Removed = slices.Delete(next.Removed, free, free+1)
		}
	}
	for _, index := range next.Removed {
		if u.isFree(index) {
			next.Free |= 1 << index
		}
	}
	return next, nil
}

// isFree reports whether the number with this index is removed and no longer owns shards.
func (u upstreams) isFree(index int) bool { return u.Free>>index&1 == 1 }
