package keysource

import "shardway/internal/valueerr"

// Missing says what becomes of a request without a key.
type Missing string

// The answers to a request without a key.
const (
	// MissingReject answers 400 and names what was looked for.
	MissingReject Missing = "reject"
	// MissingLocal serves it by the app of the node that accepted it.
	MissingLocal Missing = "local"
	// MissingHashPath takes the path as the key.
	MissingHashPath Missing = "hash-path"
	// MissingCookie gives the client a random key in a cookie.
	MissingCookie Missing = "cookie"
)

// Missings returns all of them, the default first.
func Missings() []Missing {
	return []Missing{MissingReject, MissingLocal, MissingHashPath, MissingCookie}
}

// ParseMissing reads the word; none is MissingReject. The error is a
// *valueerr.Error.
func ParseMissing(text string) (Missing, error) {
	if text == "" {
		return MissingReject, nil
	}
	for _, m := range Missings() {
		if string(m) == text {
			return m, nil
		}
	}
	return "", &valueerr.Error{Key: "on-missing-key", Value: text, Wrong: "unknown value", Remedy: "choose one of reject, local, hash-path, cookie"}
}
