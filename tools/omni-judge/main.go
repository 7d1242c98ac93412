// Omni's own verifier, which judges the signatures of `cluster-health`.
//
//	omni-judge key        a new service account, as its variable has it
//	omni-judge verify     JSON on stdin: key, method, metadata; exits with 0 if Omni would accept the call
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/siderolabs/go-api-signature/pkg/message"
	"github.com/siderolabs/go-api-signature/pkg/pgp"
	"github.com/siderolabs/go-api-signature/pkg/serviceaccount"
	"google.golang.org/grpc/metadata"
)

type call struct {
	// Key is the value of the variable.
	Key      string
	Method   string
	Metadata map[string][]string
}

func key() error {
	made, err := pgp.GenerateKey("ci", "", "ci@serviceaccount.omni.sidero.dev", 365*24*time.Hour)
	if err != nil {
		return err
	}

	value, err := serviceaccount.Encode("ci", made)
	if err != nil {
		return err
	}

	fmt.Print(value)

	return nil
}

func verify() error {
	var asked call
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}

	account, err := serviceaccount.Decode(asked.Key)
	if err != nil {
		return err
	}

	if err = account.Key.Validate(pgp.WithMaxAllowedLifetime(366 * 24 * time.Hour)); err != nil {
		return err
	}

	signed := message.NewGRPC(metadata.MD(asked.Metadata), asked.Method)

	signature, err := signed.Signature()
	if err != nil {
		return err
	}

	if signature.KeyFingerprint != account.Key.Fingerprint() || signature.Identity != account.Name {
		return errors.New("another key, or another identity")
	}

	return signed.VerifySignature(account.Key)
}

func main() {
	err := errors.New("usage: omni-judge key | verify")

	if len(os.Args) == 2 {
		switch os.Args[1] {
		case "key":
			err = key()
		case "verify":
			err = verify()
		}
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
