package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Version of the format that Encode writes and Decode reads.
const Version = 1

var (
	// ErrTorn is returned for bytes that are not all that was written.
	ErrTorn = errors.New("the model is damaged or was changed: its checksum does not match")
	// ErrVersion is returned for a model of a format that this program does not read.
	ErrVersion = errors.New("the model has another format")
)

// File is a model as it is kept: one of the kinds.
type File struct {
	Ensemble *Ensemble `json:"ensemble,omitempty"`
	Linear   *Linear   `json:"linear,omitempty"`
}

// envelope is a file with its version and checksum. The checksum is the SHA-256 of the
// model's bytes as they are in the file.
type envelope struct {
	Format int             `json:"mash2Model"`
	Hash   string          `json:"sha256"`
	Model  json.RawMessage `json:"model"`
}

// Of makes a file of a model. It returns an error for a kind that is not kept as JSON.
func Of(m Model) (File, error) {
	switch m := m.(type) {
	case *Ensemble:
		return File{Ensemble: m}, nil
	case *Linear:
		return File{Linear: m}, nil
	}
	return File{}, fmt.Errorf("a model of type %T is not kept as JSON", m)
}

// Model returns the one that the file has. It returns an error for a file with none, with
// two, or with one that is not valid.
func (f File) Model() (Model, error) {
	switch {
	case f.Ensemble != nil && f.Linear != nil || f.Ensemble == nil && f.Linear == nil:
		return nil, fmt.Errorf("model: want one of ensemble and linear")
	case f.Linear != nil:
		if err := f.Linear.Validate(); err != nil {
			return nil, fmt.Errorf("model.linear.%w", err)
		}
		return f.Linear, nil
	}
	if err := f.Ensemble.Validate(); err != nil {
		return nil, fmt.Errorf("model.ensemble.%w", err)
	}
	return f.Ensemble, nil
}

// Encode turns a model into bytes: the same ones for the same model.
func Encode(m Model) ([]byte, error) {
	f, err := Of(m)
	if err != nil {
		return nil, err
	}
	if _, err := f.Model(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(envelope{Format: Version, Hash: hash(body), Model: body})
	return append(out, '\n'), err
}

// Decode reads a model. It returns ErrVersion, ErrTorn or, for a model that was written
// so, what is wrong with it and in which field.
func Decode(data []byte) (Model, error) {
	var e envelope
	if err := strict(data, &e); err != nil {
		if e.Format == 0 {
			return nil, fmt.Errorf("%w: %w", ErrVersion, err)
		}
		return nil, fmt.Errorf("%w: %w", ErrTorn, err)
	}
	if e.Format != Version {
		return nil, fmt.Errorf("%w: version %d, this program reads %d", ErrVersion, e.Format, Version)
	}
	if e.Hash != hash(e.Model) {
		return nil, ErrTorn
	}
	var f File
	if err := strict(e.Model, &f); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	return f.Model()
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// strict decodes one JSON value and nothing behind it.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more behind the end")
	}
	return nil
}
