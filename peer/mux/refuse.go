package mux

import "fmt"

// refuse refuses a lane that has just come.
func (t *Trunk) refuse(l *Lane) error {
	t.mu.Lock()
	var err error
	if t.err == nil {
		err = t.turnAway(l.id)
		t.nobodys(l)
	}
	t.mu.Unlock()
	t.drop(l, kindReset)
	return err
}

// turnAway has the other end told that it takes no lane of that number. Who keeps to the bound
// of lanes has no more of them waiting than that. With mu held.
func (t *Trunk) turnAway(id uint32) error {
	if most := max(int(t.budget.most), MaxLanes); len(t.refusals) == most {
		return fmt.Errorf("%w: lane %d opened while %d are being refused", errFrame, id, most)
	}
	t.refusals = append(t.refusals, id)
	t.tell()
	return nil
}

// untake breaks a lane that the other end has refused.
func (t *Trunk) untake(l *Lane) {
	l.fail(ErrNotTaken) // first, for the trunk may end with its last lane
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.nobodys(l)
		t.leave(l)
		t.settle(l)
	}
}

// nobodys has nobody speak of a lane any more. With mu held.
func (t *Trunk) nobodys(l *Lane) {
	delete(t.lanes, l.id)
	l.away, l.said = true, true
}
