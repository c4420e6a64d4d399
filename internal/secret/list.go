package secret

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	// maxFileSize is the maximum size of a secret file in bytes.
	maxFileSize = 64 << 10
	// maxSecrets is the maximum number of secrets accepted at the same time. A rotation needs two.
	maxSecrets = 8
)

// List is the content of a secret file. It has at least one secret and is immutable. The
// first secret is used, all are accepted.
type List []Secret

const fileHeader = `# Secret of a Shardway cluster. It gives full control of the cluster: keep it private.
# The first secret is used, all are accepted.
`

// Text returns the list in the format of a secret file.
func (l List) Text() []byte {
	b := bytes.NewBufferString(fileHeader)
	for _, s := range l {
		b.WriteString(s.Line())
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// Parse parses a secret file with one secret per line. It skips empty lines and lines that
// begin with #. Its errors contain line numbers but never the text of a line.
func Parse(b []byte) (List, error) {
	if len(b) > maxFileSize {
		return nil, fmt.Errorf("secret: larger than %d bytes: not a secret file", maxFileSize)
	}
	var list List
	lineNumber := 0
	for line := range bytes.Lines(b) {
		lineNumber++
		text := strings.TrimSpace(string(line))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		secret, err := ParseLine(text)
		if err != nil {
			return nil, fmt.Errorf("secret: line %d: %w", lineNumber, err)
		}
		if list.Has(secret) {
			return nil, fmt.Errorf("secret: line %d: duplicate secret: remove one of them", lineNumber)
		}
		if len(list) == maxSecrets {
			return nil, fmt.Errorf("secret: line %d: more than %d secrets: remove secrets that no node uses", lineNumber, maxSecrets)
		}
		list = append(list, secret)
	}
	if len(list) == 0 {
		return nil, errors.New("secret: the file contains no secret: create one with `shardway keygen`")
	}
	return list, nil
}

// Has reports whether s is in the list.
func (l List) Has(s Secret) bool { return slices.ContainsFunc(l, s.Equal) }

// Find returns the secret with the given fingerprint.
func (l List) Find(fingerprint string) (Secret, bool) {
	i := slices.IndexFunc(l, func(s Secret) bool { return s.Fingerprint() == fingerprint })
	if i < 0 {
		return Secret{}, false
	}
	return l[i], true
}

// Newest returns the most recently created secret. ok is false if the list is empty, or if the newest
// creation time is not unique.
func (l List) Newest() (newest Secret, ok bool) {
	sorted := slices.SortedFunc(slices.Values(l), func(a, b Secret) int { return b.createdAt.Compare(a.createdAt) })
	if len(sorted) == 0 || len(sorted) > 1 && sorted[0].createdAt.Equal(sorted[1].createdAt) {
		return Secret{}, false
	}
	return sorted[0], true
}

// Equal reports whether the lists contain the same secrets in the same order.
func (l List) Equal(other List) bool { return slices.EqualFunc(l, other, Secret.Equal) }

// identical is like Equal, but also compares the creation time and origin of each secret.
func (l List) identical(other List) bool {
	return slices.EqualFunc(l, other, func(a, b Secret) bool {
		return a.Equal(b) && a.createdAt.Equal(b.createdAt) && a.fromRotation == b.fromRotation
	})
}

// With returns the list with an additional accepted secret.
func (l List) With(added Secret) List {
	if l.Has(added) {
		return l
	}
	return append(slices.Clip(l), added)
}

// WithFirst returns the list with the secret first moved to the front, so that it is used. It must be in
// the list.
func (l List) WithFirst(first Secret) List {
	rest := slices.DeleteFunc(slices.Clone(l), first.Equal)
	return append(List{first}, rest...)
}

// GossipKeys returns the gossip keys of all secrets, in the order of the list.
func (l List) GossipKeys() [][]byte {
	keys := make([][]byte, len(l))
	for i, s := range l {
		keys[i] = s.GossipKey()
	}
	return keys
}
