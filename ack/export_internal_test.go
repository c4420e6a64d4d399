package ack

// StateAtLevel returns the state of a new cluster at a level.
func StateAtLevel(l Level) *State {
	s := *NewState()
	s.cluster, s.level = "c", l
	return &s
}

// LevelEntryIn returns the level entry in entry. ok is false if it is another entry.
func LevelEntryIn(entry []byte) (e LevelEntry, ok bool) {
	c, _, err := decodeCommand(entry)
	if err != nil {
		return LevelEntry{}, false
	}
	e, ok = c.(LevelEntry)
	return e, ok
}

// ApplyLevel returns the state after a level entry that entered the log in a term.
func (s *State) ApplyLevel(term uint64, e LevelEntry) *State {
	n := *s
	next, _, err := n.applyLevel(term, e)
	if err != nil {
		return s
	}
	return next
}
