"""Exponents of gates that depend on inputs, for each sample, differentiable in the parameters and the inputs."""

import numpy as np
import tensorflow as tf

from qcnn.circuits.input_expressions import array_form
from qcnn.circuits.input_functions import TENSORFLOW_NAMES, evaluate_form
from qcnn.simulators.structure.network import CircuitIR
from qcnn.simulators.tensor_ops import as_input


class InputExponents:
    """Function that returns the exponents `CircuitIR.exponents_by_sample` of samples."""

    def __init__(self, network: CircuitIR) -> None:
        exponents = network.exponents_by_sample
        terms = [(column, term) for column, exponent in enumerate(exponents) for term in exponent.terms]
        # Distinct functions of the inputs are evaluated once.
        expressions = list(dict.fromkeys(term.expression for _, term in terms))
        self._forms = [array_form(each, network.inputs) for each in expressions]
        self._function_of_term = np.array([expressions.index(term.expression) for _, term in terms], np.int32)
        # Terms without a parameter have the factor 1, which follows the parameters.
        one = network.parameters
        self._factor_of_term = np.array(
            [one if term.parameter is None else term.parameter for _, term in terms], np.int32
        )
        self._weights = np.zeros((len(terms), len(exponents)))
        for row, (column, term) in enumerate(terms):
            self._weights[row, column] = term.coefficient
        self._constants = np.array([exponent.constant for exponent in exponents])
        self._slopes = np.zeros((len(exponents), network.parameters))
        for row, exponent in enumerate(exponents):
            for index, coefficient in exponent.coefficients:
                self._slopes[row, index] = coefficient

    def __call__(self, parameters: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
        """Return the exponents, float64 (samples, exponents).

        Args:
            parameters: Circuit parameters, float64 (parameters,).
            features: Inputs of the samples, float64 (samples, inputs).
        """
        inputs = tf.unstack(features, axis=1)
        functions = [
            evaluate_form(form, inputs, lambda name: getattr(tf.math, TENSORFLOW_NAMES.get(name, name)))
            for form in self._forms
        ]
        factors = tf.concat([parameters, tf.ones([1], tf.float64)], axis=0)
        of_terms = tf.gather(tf.stack(functions, axis=1), as_input(self._function_of_term), axis=1)
        of_terms *= tf.gather(factors, as_input(self._factor_of_term))
        constants = as_input(self._constants) + tf.linalg.matvec(as_input(self._slopes), parameters)
        return constants + of_terms @ as_input(self._weights)
