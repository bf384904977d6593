// Package foreign reads tree ensembles that other programs trained: LightGBM's text files
// (Booster.save_model) and XGBoost's JSON files (Booster.save_model with .json). What is
// read predicts as it does there, within rounding.
//
// Refused by name are categorical splits, linear leaves, several classes or outputs, and
// objectives whose output is not one of model.Output: an error says so before anything is
// predicted. Pickles are not read, since reading one runs code.
//
// It is our own code, since the Go libraries that read these files either are not kept or
// panic on a damaged file.
package foreign
