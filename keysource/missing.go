package keysource

import "shardway/internal/valueerr"

// Missing is the policy for a request without a key.
type Missing string

// The policies for requests without a key.
const (
	// MissingReject responds with 400. The response lists the sources.
	MissingReject Missing = "reject"
	// MissingLocal sends the request to the app of the node that accepted it.
	MissingLocal Missing = "local"
	// MissingHashPath uses the path as the key.
	MissingHashPath Missing = "hash-path"
	// MissingCookie assigns a random key to the client and stores it in a cookie.
	MissingCookie Missing = "cookie"
)

// Missings returns all policies, the default first.
func Missings() []Missing {
	return []Missing{MissingReject, MissingLocal, MissingHashPath, MissingCookie}
}

// ParseMissing parses a policy. An empty text means MissingReject. The error is a *valueerr.Error.
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
