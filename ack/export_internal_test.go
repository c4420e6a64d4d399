package ack

// StateAtLevel returns the state of a new cluster at a level.
func StateAtLevel(l FormatVersion) *State {
	s := *NewState()
	s.clusterID, s.formatVersion = "c", l
	return &s
}

// LevelEntryIn returns the level entry in entry. ok is false if it is another entry.
func LevelEntryIn(entry []byte) (e FormatVersionEntry, ok bool) {
	c, _, err := decodeCommand(entry)
	if err != nil {
		return FormatVersionEntry{}, false
	}
	e, ok = c.(FormatVersionEntry)
	return e, ok
}

// ApplyLevel returns the state after a level entry that entered the log in a term.
func (s *State) ApplyLevel(term uint64, e FormatVersionEntry) *State {
	n := *s
	next, _, err := n.applyFormatVersion(term, e)
	if err != nil {
		return s
	}
	return next
}

// ProposedKeyConfig returns the key configuration that the open proposal activates; empty means none.
func ProposedKeyConfig(s *State) string { return s.keyConfig.proposed }
