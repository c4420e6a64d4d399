package secret

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxFile bounds a file of secrets.
	maxFile = 64 << 10
	// maxSecrets is how many may be accepted at once. A rotation needs two.
	maxSecrets = 8
)

// List is what a file of secrets holds, at least one: the first is used, all
// are accepted. It does not change.
type List []Secret

const fileHead = `# Secret of a Shardway cluster. Who has it controls the cluster: keep it from others.
# The first one is used, all are accepted.
`

// Text returns the list as a file.
func (l List) Text() []byte {
	b := bytes.NewBufferString(fileHead)
	for _, s := range l {
		b.WriteString(s.Line())
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// Parse reads a file of secrets: one a line, empty lines and lines that begin
// with # are skipped. Its errors name lines and never repeat them.
func Parse(b []byte) (List, error) {
	if len(b) > maxFile {
		return nil, fmt.Errorf("secret: larger than %d bytes: not a file of secrets", maxFile)
	}
	var l List
	n := 0
	for line := range bytes.Lines(b) {
		n++
		text := strings.TrimSpace(string(line))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		s, err := ParseLine(text)
		if err != nil {
			return nil, fmt.Errorf("secret: line %d: %w", n, err)
		}
		if l.Has(s) {
			return nil, fmt.Errorf("secret: line %d: duplicate secret: remove one of them", n)
		}
		if len(l) == maxSecrets {
			return nil, fmt.Errorf("secret: line %d: more than %d secrets: remove those no node uses any more", n, maxSecrets)
		}
		l = append(l, s)
	}
	if len(l) == 0 {
		return nil, errors.New("secret: it contains no secret: make one with `shardway keygen`")
	}
	return l, nil
}

// Has reports whether s is in the list.
func (l List) Has(s Secret) bool { return slices.ContainsFunc(l, s.Equal) }

// Find returns the secret with that fingerprint.
func (l List) Find(fingerprint string) (Secret, bool) {
	i := slices.IndexFunc(l, func(s Secret) bool { return s.Fingerprint() == fingerprint })
	if i < 0 {
		return Secret{}, false
	}
	return l[i], true
}

// Newest returns the secret that was made last, and false if nothing says which
// one that is.
func (l List) Newest() (Secret, bool) {
	sorted := slices.SortedFunc(slices.Values(l), func(a, b Secret) int { return b.made.Compare(a.made) })
	if len(sorted) == 0 || len(sorted) > 1 && sorted[0].made.Equal(sorted[1].made) {
		return Secret{}, false
	}
	return sorted[0], true
}

// Equal reports whether both lists hold the same secrets in the same order.
func (l List) Equal(o List) bool { return slices.EqualFunc(l, o, Secret.Equal) }

// same reports whether both say the same of the same secrets too: when they were
// made, and by whom.
func (l List) identical(o List) bool {
	return slices.EqualFunc(l, o, func(a, b Secret) bool {
		return a.Equal(b) && a.made.Equal(b.made) && a.rotated == b.rotated
	})
}

// With returns the list with s accepted too.
func (l List) With(s Secret) List {
	if l.Has(s) {
		return l
	}
	return append(slices.Clip(l), s)
}

// First returns the list with s in use. s must be in it.
func (l List) WithFirst(s Secret) List {
	rest := slices.DeleteFunc(slices.Clone(l), s.Equal)
	return append(List{s}, rest...)
}

// GossipKeys returns the keys for gossip, in the same order.
func (l List) GossipKeys() [][]byte {
	keys := make([][]byte, len(l))
	for i, s := range l {
		keys[i] = s.GossipKey()
	}
	return keys
}
