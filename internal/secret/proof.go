package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	labelProof   = "rotation: proof of the secret"
	labelWrap    = "rotation: key of one stream"
	labelBinding = "EXPORTER-shardway-rotation"
	// bindingSize is the length of a channel binding in bytes.
	bindingSize = 32
)

// Proofs prove possession of secrets, by fingerprint. A proof is valid for one message in
// one direction of one stream and reveals nothing about the secret.
type Proofs map[string][]byte

// Binding returns the channel binding of the stream: 32 bytes that only its two ends know
// (exporter of RFC 8446, section 7.5). A man in the middle, even with certificates that
// both ends accept, has two streams with two different bindings.
func (c *Conn) Binding() ([]byte, error) {
	cs := c.ConnectionState()
	b, err := cs.ExportKeyingMaterial(labelBinding, nil, bindingSize)
	if err != nil {
		return nil, fmt.Errorf("secret: binding of the stream: %w", err)
	}
	return b, nil
}

// Prove proves to the receiver of message that the sender has every secret of the list.
// role names the direction of the message, so that a proof cannot be sent back to its
// author.
func (l List) Prove(binding []byte, role string, message []byte) Proofs {
	proofs := make(Proofs, len(l))
	for _, s := range l {
		proofs[s.Fingerprint()] = s.proof(binding, role, message)
	}
	return proofs
}

// VerifyProofs returns the secrets of the list that the proofs are valid for, in the order of the
// list.
func (l List) VerifyProofs(proofs Proofs, binding []byte, role string, message []byte) List {
	var proven List
	for _, s := range l {
		if hmac.Equal(proofs[s.Fingerprint()], s.proof(binding, role, message)) {
			proven = append(proven, s)
		}
	}
	return proven
}

func (s Secret) proof(binding []byte, role string, message []byte) []byte {
	mac := hmac.New(sha256.New, s.derive(labelProof, sha256.Size))
	for _, part := range [][]byte{binding, []byte(role), message} {
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// Wrap encrypts b for the other end of the stream with the given binding. Only a peer that
// has s can decrypt it.
func (s Secret) Wrap(binding, b []byte) ([]byte, error) {
	gcm, err := s.wrapper(binding)
	if err != nil {
		return nil, err
	}
	return gcm.Seal(nil, nil, b, nil), nil //nolint:gosec // this AEAD generates a random nonce itself
}

// Unwrap decrypts the result of Wrap for the same secret and stream.
func (s Secret) Unwrap(binding, b []byte) ([]byte, error) {
	gcm, err := s.wrapper(binding)
	if err != nil {
		return nil, err
	}
	plaintext, err := gcm.Open(nil, nil, b, nil)
	if err != nil {
		return nil, fmt.Errorf("secret: not encrypted with %s for this stream", s.Fingerprint())
	}
	return plaintext, nil
}

// wrapper returns the cipher with which a new secret is sent over the stream with this binding. It returns an error
// if the binding does not have bindingSize bytes.
func (s Secret) wrapper(binding []byte) (cipher.AEAD, error) {
	if len(binding) != bindingSize {
		return nil, errors.New("secret: the stream has no binding")
	}
	key, err := hkdf.Key(sha256.New, s.key[:], []byte(salt), labelWrap+string(binding), 32)
	if err != nil {
		return nil, fmt.Errorf("secret: key of the stream: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("secret: key of the stream: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}
