package ack

// Limits of the registry, which this package stores but does not interpret. They are above those of package registry.
const (
	maxRegistryCommand = 128 << 10
	// MaxRegistry is the largest encoded registry in a snapshot or a backup.
	MaxRegistry = 48 << 20
)

// registryEntry is the log entry with a command for the registry. The registry is no part of State: the caller of Apply
// passes the command to it, see RegistryCommand.
type registryEntry struct{ command []byte }

// EncodeRegistry encodes the entry with a command for the registry. The format version must have the registry.
func EncodeRegistry(version FormatVersion, command []byte) []byte {
	w := newWriter(version)
	w.byte(kindRegistry)
	w.bytes(command)
	return w.buf
}

// readRegistryEntry decodes the output of EncodeRegistry after its kind.
func (r *reader) readRegistryEntry() registryEntry {
	if !r.version.HasRegistry() {
		r.fail("a command for the registry before its format version")
	}
	return registryEntry{r.read(int(r.uint(1, maxRegistryCommand)))}
}

// applyRegistry advances the index only. A command before the bootstrap is ignored.
func (s *State) applyRegistry() (*State, Outcome, error) {
	if !s.Bootstrapped() {
		return s.ignore()
	}
	return s, OutcomeRegistry, nil
}

// RegistryCommand returns the command in an entry for which Apply has returned OutcomeRegistry.
func RegistryCommand(entry []byte) []byte {
	r := reader{buf: entry}
	r.readFormatVersion()
	r.byte() // the kind
	return r.readRegistryEntry().command
}
