// Package model is what a user's strategy asks for a number: the quality of service of an
// application on a node, say, from that node's metrics. A [Model] reads features and
// gives one number. There are three kinds:
//
//	Ensemble   trees: random forests and gradient boosting
//	Linear     ordinary least squares
//	dense      a small neural network from an ONNX file (package model/dense)
//
// Package model/forest trains ensembles, package model/foreign reads those that LightGBM,
// XGBoost and scikit-learn trained. [Encode] and [Decode] keep a model as JSON with a
// checksum.
//
// Everything here is pure and deterministic. A feature without a value is an error and
// never a guess, unless the model itself learned where missing values go.
package model
