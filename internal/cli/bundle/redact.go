package bundle

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
)

// minSecretBytes is the minimum length of a redacted word. All secrets and tokens are longer. Shorter
// words, such as the names in token files, are no secrets, and may occur everywhere in the bundle.
const minSecretBytes = 16

// placeholder is the text that replaces a secret.
const placeholder = "[removed]"

// Redactor removes secrets from text.
type Redactor struct{ secrets [][]byte }

// Add redacts every sufficiently long word of a file, also its JSON form, and the parts of words that
// are separated by colons or commas.
func (r *Redactor) Add(file []byte) {
	parts := slices.Concat(bytes.Fields(file), bytes.FieldsFunc(file, func(c rune) bool { return c <= ' ' || c == ':' || c == ',' }))
	for _, word := range parts {
		inJSON, err := json.Marshal(string(word))
		if err != nil {
			continue
		}
		r.addSecret(word)
		r.addSecret(bytes.Trim(inJSON, `"`))
	}
}

// addSecret redacts a text, unless it is too short.
func (r *Redactor) addSecret(text []byte) {
	isKnown := slices.ContainsFunc(r.secrets, func(known []byte) bool { return bytes.Equal(known, text) })
	if len(text) >= minSecretBytes && !isKnown {
		r.secrets = append(r.secrets, text)
	}
}

// Redact removes the words of Add, and all text with the form of a cluster secret, a token or a
// password in a URL.
func (r *Redactor) Redact(content []byte) []byte {
	for _, word := range r.secrets {
		content = bytes.ReplaceAll(content, word, []byte(placeholder))
	}
	for pattern, replacement := range map[string]string{
		`sw1_[\w-]{16,}`:              placeholder,
		`(?i)\bbearer +[^\s"]+`:       "Bearer " + placeholder,
		`://[^\s"/@]*:[^\s"/@]*@(\S)`: "://" + placeholder + "@$1",
	} {
		content = regexp.MustCompile(pattern).ReplaceAll(content, []byte(replacement))
	}
	return content
}
