// Package nodelabel contains the rules for the names, the roles and the metadata that an operator gives to a node. A node
// announces them by gossip, in the text form of this package. The package is pure.
//
//	--role, --meta  ──►  CheckRoles, ParseMeta  ──►  JoinRoles, Meta.String  ──►  gossip  ──►  SplitRoles, SplitMeta
//
// The Check functions return errors for an operator. The Split functions read input from other machines. They ignore
// each part of the input that the Check functions would reject.
package nodelabel

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"shardway/internal/valueerr"
)

// The limits of the roles and the metadata of a node.
const (
	// MaxRoles is the maximum number of roles.
	MaxRoles = 16
	// MaxEntries is the maximum number of metadata entries.
	MaxEntries = 16
	// MaxMetaBytes is the maximum size of all metadata, as Meta.String writes it.
	MaxMetaBytes = 256
	// MaxNameBytes is the maximum length of a role, and of the key of a metadata entry.
	MaxNameBytes = 32
	// MaxIDBytes is the maximum length of the ID of a node, and of the name of a zone, a region or an announced service.
	MaxIDBytes = 64
	// MaxVersionBytes is the maximum length of the version of the program, and of its app.
	MaxVersionBytes = 64
)

// separator separates roles and metadata entries. Neither can contain it.
const separator = ","

// isName reports whether text can be a role, or the key of a metadata entry.
func isName(text string) bool { return len(text) <= MaxNameBytes && hasNameForm(text) }

// IsID reports whether text can be the ID of a node, or the name of a zone, a region or an announced service. Serf tags,
// Raft server IDs (before a slash), headers and the output of commands contain it.
func IsID(text string) bool { return len(text) <= MaxIDBytes && hasNameForm(text) }

// hasNameForm reports whether text consists of letters, digits, dots, dashes and underscores of ASCII, with a letter or
// digit at both ends.
func hasNameForm(text string) bool {
	for _, char := range []byte(text) {
		if !isLetterOrDigit(char) && char != '.' && char != '-' && char != '_' {
			return false
		}
	}
	return text != "" && isLetterOrDigit(text[0]) && isLetterOrDigit(text[len(text)-1])
}

func isLetterOrDigit(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// IsVersion reports whether text can be the version of the program or of its app: up to MaxVersionBytes bytes of
// printable ASCII.
func IsVersion(text string) bool {
	return len(text) <= MaxVersionBytes && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// NameRemedy describes the form of a name to an operator.
const NameRemedy = "use up to 32 letters, digits, dots, dashes and underscores, with a letter or digit at both ends"

// CheckRole returns an error if text cannot be a role.
func CheckRole(text string) error {
	if !isName(text) {
		return &valueerr.Error{Value: text, Wrong: strconv.Quote(text) + " is not a role", Remedy: NameRemedy}
	}
	return nil
}

// CheckRoles returns an error if a node cannot have these roles.
func CheckRoles(roles []string) error {
	for i, role := range roles {
		if err := CheckRole(role); err != nil {
			return err
		}
		if slices.Contains(roles[:i], role) {
			return &valueerr.Error{Value: role, Wrong: strconv.Quote(role) + " is there twice", Remedy: "remove one of them"}
		}
	}
	if len(roles) > MaxRoles {
		return &valueerr.Error{Wrong: fmt.Sprintf("there are %d roles", len(roles)), Remedy: fmt.Sprintf("use at most %d", MaxRoles)}
	}
	return nil
}

// JoinRoles returns the text form of roles, sorted.
func JoinRoles(roles []string) string {
	return strings.Join(slices.Sorted(slices.Values(roles)), separator)
}

// SplitRoles returns the valid roles in the result of JoinRoles, sorted and without duplicates; nil if there are none.
func SplitRoles(text string) []string {
	var roles []string
	for word := range strings.SplitSeq(text, separator) {
		if isName(word) && len(roles) < MaxRoles {
			roles = append(roles, word)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// Meta is the metadata of a node: values by key.
type Meta map[string]string

// ParseMeta converts entries of the form KEY=VALUE. It returns an error for an entry of any other form, a duplicate
// key, or more entries or bytes than a node may have.
func ParseMeta(entries []string) (Meta, error) {
	meta := Meta{}
	for _, entry := range entries {
		key, value, ok := strings.Cut(entry, "=")
		if !ok || !isName(key) {
			return nil, &valueerr.Error{Value: entry, Wrong: strconv.Quote(entry) + " is not a metadata entry", Remedy: "write it like rack=r7; for the key, " + NameRemedy}
		}
		if !isValue(value) {
			return nil, &valueerr.Error{Value: entry, Wrong: "the value of " + strconv.Quote(key) + " is not valid", Remedy: "use printable ASCII characters without commas"}
		}
		if _, isKnown := meta[key]; isKnown {
			return nil, &valueerr.Error{Value: entry, Wrong: strconv.Quote(key) + " is there twice", Remedy: "give each entry a key of its own"}
		}
		meta[key] = value
	}
	if len(meta) > MaxEntries {
		return nil, &valueerr.Error{Wrong: fmt.Sprintf("there are %d metadata entries", len(meta)), Remedy: fmt.Sprintf("use at most %d", MaxEntries)}
	}
	if size := len(meta.String()); size > MaxMetaBytes {
		return nil, &valueerr.Error{Wrong: fmt.Sprintf("all metadata together has %d bytes", size), Remedy: fmt.Sprintf("use at most %d; an entry takes its key, its value and 2 bytes more", MaxMetaBytes)}
	}
	return meta, nil
}

// isValue reports whether text can be the value of a metadata entry. It may be empty.
func isValue(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == ',' })
}

// String returns the text form of the metadata, sorted by key.
func (m Meta) String() string {
	entries := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		entries = append(entries, key+"="+m[key])
	}
	return strings.Join(entries, separator)
}

// SplitMeta returns the valid entries in the result of Meta.String; nil if there are none.
func SplitMeta(text string) Meta {
	if len(text) > MaxMetaBytes {
		return nil
	}
	var meta Meta
	for entry := range strings.SplitSeq(text, separator) {
		key, value, ok := strings.Cut(entry, "=")
		if !ok || !isName(key) || !isValue(value) || len(meta) >= MaxEntries {
			continue
		}
		if meta == nil {
			meta = Meta{}
		}
		meta[key] = value
	}
	return meta
}
