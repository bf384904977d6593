package learned

import _ "embed"

// Shipped is the name of the model of margins that comes with the program, in a
// ManagedWorkload's spec.model.
const Shipped = "margins"

//go:embed shipped/model.rl
var shippedModel []byte

//go:embed shipped/card.json
var shippedCard []byte

// ShippedModel is the model as rl.Encode wrote it, and its card as JSON: what it learned
// from and what it is not for. `make train-margins` makes them.
func ShippedModel() (model, card []byte) { return shippedModel, shippedCard }
